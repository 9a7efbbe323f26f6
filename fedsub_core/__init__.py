"""The ground: models, stacks, training, data format, wire, metrics, config, methods."""
