"""The server halves of the methods, as Flower Strategies."""
