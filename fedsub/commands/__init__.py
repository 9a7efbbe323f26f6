"""The command line's groups of commands."""
