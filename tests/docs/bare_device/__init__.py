"""A device built from docs/wire-format.md alone: numpy, protobuf and, over gRPC, Flower."""
