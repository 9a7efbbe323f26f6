"""What runs reached, for people to read."""
