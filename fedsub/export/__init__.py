"""A person's model as a file for other programs."""
