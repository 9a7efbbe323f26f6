"""Data sets: their cards, fetching, preparing, partitions, and a look at what came out."""
