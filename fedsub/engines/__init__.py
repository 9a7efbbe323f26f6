"""Engines: the federation in this process, in Flower's simulation, in a rehearsed deployment."""
