"""Embeddings: what a model's head sees of samples."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.models.chain import Model, Params

#: Samples of each client in one forward pass: a convolution's patches are large.
BLOCK = 256


def body_of(model: Model, head_layers: int = 1) -> Model:
    """Return the model without its head, the last layers with units and all behind them."""
    first = model.layers.index(model.affine[-head_layers])
    return Model(model.layers[:first], model.input_shape)


def embeddings(model: Model, params: Params, x: Tensor, head_layers: int = 1) -> Tensor:
    """Return what the head sees, ``[clients, samples, *d]``, of ``x [clients, samples, *]``."""
    body = body_of(model, head_layers)
    with torch.no_grad():
        blocks = [body.forward(params, block) for block in torch.split(x, BLOCK, dim=1)]
    return torch.cat(blocks, dim=1)
