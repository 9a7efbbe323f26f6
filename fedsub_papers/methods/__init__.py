"""The cards of the papers' methods, and what several of them declare."""
