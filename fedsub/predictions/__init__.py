"""What people's models of a run say of single samples, and scores of it."""
