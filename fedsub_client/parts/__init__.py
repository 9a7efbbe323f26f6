"""What several device halves share: embeddings, prototypes, sparse models, sums, validation."""
