"""What several server halves share: slices, single numbers, exits, masks, alignment."""
