"""Embeddings: what a model's head sees of samples."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.models.model import Model, Params

#: Samples of each client in one forward pass: a convolution's patches are large.
BLOCK = 256


def embeddings(model: Model, params: Params, x: Tensor, head_layers: int = 1) -> Tensor:
    """Return what the head sees, ``[clients, samples, *d]``, of ``x [clients, samples, *]``."""
    body, _ = model.cut(head_layers)
    with torch.no_grad():
        blocks = [body.forward(params, block) for block in torch.split(x, BLOCK, dim=1)]
    return torch.cat(blocks, dim=1)
