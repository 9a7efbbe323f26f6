"""Partitions that the papers' studies need: of domains, of graphs, of classes."""
