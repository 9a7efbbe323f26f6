"""Local training over stacks of clients."""
