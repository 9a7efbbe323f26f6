"""People who come after the last round: models of their own from the sums of a finished run."""
