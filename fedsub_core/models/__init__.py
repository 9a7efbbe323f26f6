"""Models over stacks of clients."""
