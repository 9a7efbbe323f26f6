"""HHAR: smartphones of many makes."""
