"""Encoders: features in front of any model, drawn from the seed, the same bits everywhere."""
