"""A device built from docs/wire-format.md alone: numpy, protobuf, and Flower to carry messages."""
