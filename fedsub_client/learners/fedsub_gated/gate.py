"""The gate: how much each expert explains of samples that did not train it.

Mixture proportions by expectation maximisation (Dempster, Laird and Rubin 1977; of experts, Jordan
and Jacobs 1994). Experts are fixed here, so all that is needed of them is what probability each
gives every sample's label.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Steps of a person's own EM: from there on weights of a few samples move in the third digit.
STEPS = 30
TINY = 1e-12
#: From where on a probability of the right class is good enough; samples that weigh as much as the
#: weights before.
SURE, FEW = 0.5, 1.0


def responsibilities(chosen: Tensor, weights: Tensor) -> Tensor:
    """Return how much of each sample each expert explains, ``[clients, samples, experts]``.

    Parameters
    ----------
    chosen : [clients, samples, experts], probability of the sample's label; all 0: padding.
    weights : [clients, experts], which sum to 1.
    """
    joint = chosen * weights[:, None]
    return joint / joint.sum(2, keepdim=True).clamp(min=TINY)


def own_weights(chosen: Tensor, prior: Tensor, alpha: float) -> Tensor:
    """Return the weights that explain a person's samples best, ``[clients, experts]``.

    The maximum a posteriori under a Dirichlet prior with parameters ``alpha * prior + 1``:
    without samples the prior, with many the person's own.
    """
    count = (chosen.sum(2) > 0).sum(1, keepdim=True).to(prior.dtype)
    weights = prior
    for _ in range(STEPS):
        sums = responsibilities(chosen, weights).sum(1)
        weights = (sums + alpha * prior) / (count + alpha).clamp(min=TINY)
    return torch.where(count + alpha > 0, weights, prior)


def without_failing(chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the weights with less for experts that fail on samples that they have trained on.

    Such samples cannot say who is best: whoever learnt them by heart would be. Probabilities count
    up to :data:`SURE`, so that experts which know a sample tie, and keep their weights; one whose
    training went wrong late loses them.
    """
    return own_weights(chosen.clamp(max=SURE), weights, FEW)
