"""Models over stacks of clients: chains of layers, and what is made of them."""

from fedsub_core.models.chain import Model, Params
from fedsub_core.models.kinds import build_model

__all__ = ["Model", "Params", "build_model"]
