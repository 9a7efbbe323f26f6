"""What several device halves share: activity of units, slices, sparse models."""
