"""Where a person's classes lie in the common model's embedding: what is far from them is new."""

from __future__ import annotations

from torch import Tensor

from fedsub_client.methods.fedsub.prototypes import prototypes
from fedsub_client.methods.fedsub_gated.probabilities import unit_length
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Model, Params

#: How much of the mean variance of all dimensions is added to each: few samples do not know it. So
#: many more samples than classes, at least, tell how far samples lie from their class's mean.
SHARED, ENOUGH = 0.1, 4


def class_means(model: Model, params: Params, data: Stack) -> tuple[Tensor, Tensor]:
    """Return class means ``[clients, classes, d]`` of embeddings of length 1, and their spread.

    That is the variance of each dimension around them, ``[clients, d]``.
    """
    seen = embeddings(model, params, data.x, scale=data.scale).flatten(2)
    seen = unit_length(seen) * data.valid.unsqueeze(2)
    means, _ = prototypes(seen, data, model.classes)
    away = seen - means.gather(1, data.y.unsqueeze(2).expand_as(seen))
    total = (away.square() * data.valid.unsqueeze(2)).sum(1)
    # A mean takes a sample's worth of what its class varies.
    variance = total / _free(data).clamp(min=1).unsqueeze(1)
    return means, variance + SHARED * variance.mean(1, keepdim=True)


def enough(data: Stack) -> Tensor:
    """Return bool [clients], whether samples tell how far from their classes others lie."""
    return _free(data) >= ENOUGH


def _free(data: Stack) -> Tensor:
    """Return by how many each person's samples exceed its classes, ``[clients]``."""
    count = data.of_class().sum(1)
    return (count.sum(1) - (count > 0).sum(1)).to(data.x.device)
