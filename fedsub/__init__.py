"""The roof: what a person runs. Command line, simulation, reports, data preparation."""
