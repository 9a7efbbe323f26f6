"""The gate: how much each expert explains of samples that did not train it, and how sure it may be.

Mixture proportions by expectation maximisation (Dempster, Laird and Rubin 1977; of experts, Jordan
and Jacobs 1994). Experts are fixed here, so all that is needed of them is what probability each
gives every sample's label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub_gated import MOST, TEMPERATURES
from fedsub_core.models.mixture import TINY, tempered

#: Steps of a person's own EM: from there on weights of a few samples move in the third digit.
STEPS = 30
#: From where on a probability of the right class is good enough; samples that weigh as much as the
#: weights before.
SURE, FEW = 0.5, 1.0


def of_labels(each: Tensor, judged: Stack) -> Tensor:
    """Return what each expert gives each sample's label, ``[clients, samples, experts]``.

    0 where padded.
    """
    label = judged.y[:, :, None, None].expand(*each.shape[:3], 1)
    return each.gather(3, label).squeeze(3) * judged.valid.unsqueeze(2)


def responsibilities(chosen: Tensor, weights: Tensor) -> Tensor:
    """Return how much of each sample each expert explains, ``[clients, samples, experts]``.

    A sample's sum to 1, or to 0 where nobody that is believed gives its label a chance.

    Parameters
    ----------
    chosen : [clients, samples, experts], probability of the sample's label; all 0: padding.
    weights : [clients, experts], which sum to 1.
    """
    joint = chosen.double() * weights[:, None]
    total = joint.sum(2, keepdim=True)
    return torch.where(total > 0, joint / total, 0.0).to(weights.dtype)


def own_weights(chosen: Tensor, prior: Tensor, alpha: float) -> Tensor:
    """Return the weights that explain a person's samples best, ``[clients, experts]``.

    The maximum a posteriori under a Dirichlet prior with parameters ``alpha * prior + 1``:
    without samples the prior, with many the person's own.
    """
    weights = prior
    for _ in range(STEPS):
        sums = responsibilities(chosen, weights).sum(1) + alpha * prior
        total = sums.sum(1, keepdim=True)
        weights = torch.where(total > 0, sums / total, prior)
    return weights


def without_failing(chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the weights with less for experts that fail on samples that they have trained on.

    Such samples cannot say who is best: whoever learnt them by heart would be. Probabilities count
    up to :data:`SURE`, so that experts which know a sample tie, and keep their weights; one whose
    training went wrong late loses them.
    """
    return own_weights(chosen.clamp(max=SURE), weights, FEW)


def calibration_curves(each: Tensor, judged: Stack) -> Tensor:
    """Return by how much likelier the labels are at each temperature than at 1, in nats.

    ``[clients, experts, temperatures]``, sums over samples, each of at most :data:`MOST`
    either way: that is all that a device can claim of one.
    """
    plain = torch.ones(len(each), each.shape[2], device=each.device)
    at = [of_labels(tempered(each, t * plain), judged).clamp(min=TINY) for t in TEMPERATURES]
    before = at[TEMPERATURES.index(1.0)]
    return torch.stack([(a / before).log().clamp(-MOST, MOST).sum(1) for a in at], 2)
