"""What several server halves share: means, groups, distances, prototypes, rosters."""
