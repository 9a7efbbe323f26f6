"""The gate: how much each expert explains of samples that did not train it, and how sure it may be.

Mixture proportions by expectation maximisation (Dempster, Laird and Rubin 1977; of experts, Jordan
and Jacobs 1994). Experts are fixed here, so all that is needed of them is what probability each
gives every sample's label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_client.methods.fedsub_gated.probabilities import TINY, tempered
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub_gated import MOST, TEMPERATURES

#: How many own samples count as much as the weights learnt from all people.
ALPHA = 50.0
#: Steps of a person's own EM: from there on weights of a few samples move in the third digit.
STEPS = 30
#: From where on a probability of the right class is good enough; as how many samples it weighs that
#: an expert explains less than it did.
SURE, FALLEN = 0.5, 4.0


def of_labels(each: Tensor, judged: Stack) -> Tensor:
    """Return each expert's probability of each sample's label, ``[clients, samples, experts]``.

    0 where padded.
    """
    label = judged.y[:, :, None, None].expand(*each.shape[:3], 1)
    return each.gather(3, label).squeeze(3) * judged.valid.unsqueeze(2)


def responsibilities(chosen: Tensor, weights: Tensor) -> Tensor:
    """Return each expert's share in explaining each sample, ``[clients, samples, experts]``.

    A sample's sum to 1, or to 0 where nobody that is believed gives its label a chance.

    Parameters
    ----------
    chosen : [clients, samples, experts], probability of the sample's label; all 0: padding.
    weights : [clients, experts], which sum to 1.
    """
    joint = chosen.double() * weights[:, None]
    total = joint.sum(2, keepdim=True)
    return torch.where(total > 0, joint / total, 0.0).to(weights.dtype)


def own_sums(chosen: Tensor, prior: Tensor, alpha: float) -> Tensor:
    """Return the number of a person's samples that each expert explains, ``[clients, experts]``.

    At the weights that are the maximum a posteriori under a Dirichlet prior with parameters
    ``alpha * prior + 1``; :func:`posterior` gives these.
    """
    weights, sums = prior, torch.zeros_like(prior)
    for _ in range(STEPS):
        sums = responsibilities(chosen, weights).sum(1)
        weights = posterior(sums, prior, alpha)
    return sums


def posterior(sums: Tensor, prior: Tensor, alpha: float) -> Tensor:
    """Return a person's weights ``[clients, experts]``, which sum to 1.

    Without samples the prior, with many the person's own; 0 where the prior is 0.
    """
    sums = sums * (prior > 0) + alpha * prior
    total = sums.sum(1, keepdim=True)
    return torch.where(total > 0, sums / total, prior)


def explained(chosen: Tensor, judged: Stack) -> Tensor:
    """Return each expert's fit to a person's samples, ``[clients, experts]``.

    The mean probability of their labels, of each up to :data:`SURE`: who has trained on them knows
    them by heart, and is no better for it. 0 where there are none.
    """
    counts = judged.valid.sum(1, keepdim=True).clamp(min=1)
    return chosen.clamp(max=SURE).sum(1) / counts


def trust(now: Tensor, then: Tensor) -> Tensor:
    """Return the factors of weights ``[clients, experts]``, from 0 to 1.

    Less than 1 for an expert that explains less than it did when it was judged. Samples that have
    trained some experts cannot say which is best, but one that fails on what it knew went wrong:
    its training diverged, or the common model forgot this person.
    """
    share = torch.where(then > 0, now / then.clamp(min=1e-12), 1.0).clamp(max=1)
    return share**FALLEN


def calibration_curves(each: Tensor, judged: Stack) -> Tensor:
    """Return the labels' gain in log likelihood at each temperature over that at 1, in nats.

    ``[clients, experts, temperatures]``, sums over samples, each of at most :data:`MOST`
    either way: that is all that a device can claim of one.
    """
    plain = torch.ones(len(each), each.shape[2], device=each.device)
    at = [of_labels(tempered(each, t * plain), judged).clamp(min=TINY) for t in TEMPERATURES]
    before = at[TEMPERATURES.index(1.0)]
    return torch.stack([(a / before).log().clamp(-MOST, MOST).sum(1) for a in at], 2)
