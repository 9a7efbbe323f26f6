"""The configuration of a run: one TOML, typed, and refused where it is wrong."""
