"""What several server halves share: means, groups, distances, prototypes, masks, rosters."""
