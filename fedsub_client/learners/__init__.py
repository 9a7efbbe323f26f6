"""The device halves of the methods."""
