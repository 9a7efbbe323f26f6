"""What all strategies share: the round loop and its messages."""
