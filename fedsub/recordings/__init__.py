"""Recordings: new files cut as a model's training data were, and a person's answers over time."""
