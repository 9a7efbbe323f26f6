"""Embeddings: what a model's head sees of samples."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.data.samples import Nodes
from fedsub_core.data.stacks import inputs
from fedsub_core.models.model import Model, Params

#: Samples of each client in one forward pass: a convolution's patches are large.
BLOCK = 256


def embeddings(
    model: Model, params: Params, x: Tensor, head_layers: int = 1, scale: Tensor | None = None
) -> Tensor:
    """Return the head's inputs, ``[clients, samples, *d]``, of ``x [clients, samples, *]``.

    `x` and `scale` are a stack's, or `x` is what a model sees of samples.
    """
    body, _ = model.cut(head_layers)
    with torch.no_grad():
        size = x.shape[1] if isinstance(model.input_shape, Nodes) else BLOCK  # a graph is whole
        blocks = torch.split(x, size, dim=1)
        return torch.cat([body.forward(params, inputs(block, scale)) for block in blocks], dim=1)
