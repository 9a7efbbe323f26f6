"""Models over stacks of clients: chains of layers, and what is made of them."""
