"""The table of methods."""
