"""A look at a federation: numbers, figures, a page."""
