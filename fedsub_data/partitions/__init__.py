"""Another federation out of one, for controlled experiments."""
