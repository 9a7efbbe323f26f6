"""Compiled kernels: training, forward pass and relevance of models; features of windows.

Their C sources lie here, too; ``setup.py`` builds them into a module of its own, where a compiler
is. Without it, and for models they do not know, PyTorch computes the same to a few units in the
seventh digit, and NumPy the same features.
"""
