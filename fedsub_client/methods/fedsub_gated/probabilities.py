"""Probabilities and distances that a mixture is made of.

Probabilities are softened, and may be of the person's classes alone. Distances are those from the
person's class means in the common model's embedding: a sample far from them is new.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_client.methods.fedsub.prototypes import prototypes
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Model, Params

#: The mixture's parameters that are no model's.
WEIGHTS, TEMPERATURE, HELD, OPEN, MEANS, SPREAD = (
    "gate.weights",
    "gate.temperature",
    "gate.held",
    "gate.open",
    "nearest.means",
    "nearest.spread",
)
#: Smallest squared distance of an embedding of length 1 from its class mean; smallest probability.
NARROW, TINY = 1e-3, 1e-12
#: How much of the mean variance of all dimensions is added to each: few samples do not know it. So
#: many more samples than classes, at least, tell how far samples lie from their class's mean.
SHARED, ENOUGH = 0.1, 4


def tempered(each: Tensor, temperature: Tensor) -> Tensor:
    """Return ``[clients, samples, experts, classes]``, softer with T > 1, ``[clients, experts]``.

    Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017.
    """
    powers = each ** (1 / temperature[:, None, :, None])
    return powers / powers.sum(3, keepdim=True)


def of_held(gate: Params, logits: Tensor) -> Tensor:
    """Return logits ``[clients, samples, classes]`` without classes that the person lacks."""
    return logits.masked_fill(gate[HELD][:, None] == 0, -torch.inf)


def unit_length(embedding: Tensor) -> Tensor:
    """Return embeddings ``[..., d]`` scaled to length 1; what is not finite counts as 0."""
    return F.normalize(embedding.nan_to_num(0.0, 0.0, 0.0), dim=-1)


def distances(params: Params, embedding: Tensor) -> Tensor:
    """Return squared distances ``[clients, samples, classes]`` from the person's class means.

    As multiples of what the person's own samples have on average; each dimension by its variance.
    """
    means, size = params[MEANS], params[MEANS].shape[2]
    width = params[SPREAD].clamp(min=NARROW / size)[:, None].sqrt()
    embedding, means = embedding / width, means / width
    across = embedding @ means.transpose(1, 2)
    lengths = embedding.square().sum(2, keepdim=True)
    squares = lengths - 2 * across + means.square().sum(2)[:, None]
    return squares.clamp(min=0) / size


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
    """Return the number of each person's samples beyond one a class, ``[clients]``."""
    count = data.of_class().sum(1)
    return (count.sum(1) - (count > 0).sum(1)).to(data.x.device)


def finite(probabilities: Tensor) -> Tensor:
    """Return a model's probabilities, all classes alike where they are not finite.

    One that diverged must not spoil a mixture that does not believe it: 0 times nan is nan.
    """
    broken = probabilities.sum(-1, keepdim=True).isnan()
    return torch.where(broken, 1 / probabilities.shape[-1], probabilities)
