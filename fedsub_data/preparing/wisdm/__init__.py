"""WISDM v1.1: a smartphone in the pocket."""
