"""Probabilities that a mixture is made of: softened, of the person's classes, by distances."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_core.models.model import Params

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


def finite(probabilities: Tensor) -> Tensor:
    """Return what a model says, or nothing, all classes alike, where it is not finite.

    One that diverged must not spoil a mixture that does not believe it: 0 times nan is nan.
    """
    broken = probabilities.sum(-1, keepdim=True).isnan()
    return torch.where(broken, 1 / probabilities.shape[-1], probabilities)
