"""The federation format, splits, standardisation and stacks."""
