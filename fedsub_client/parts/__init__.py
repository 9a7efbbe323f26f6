"""What several device halves share: embeddings, prototypes, sums, validation."""
