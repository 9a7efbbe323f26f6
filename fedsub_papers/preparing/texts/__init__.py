"""Sets of texts, which become token ids."""
