"""Graphs: papers that cite each other."""
