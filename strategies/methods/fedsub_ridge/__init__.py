"""FedSub in closed form, the server half: people's sums, their checks, groups, pooled equations."""
