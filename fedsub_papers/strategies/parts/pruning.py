"""CA-AFP's arithmetic: scores of weights, a group's sparsity, and how many weights move.

Source: the report CA-AFP and its successor, arXiv 2603.01739; decisions on the method's card.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsub_papers.masks import highest, lowest

LEAST, MOST = 0.5, 0.9
#: Sparsity from which an adaptive one moves, and the share of active weights that churn.
START, CHURN = 0.7, 0.05


@dataclass(frozen=True)
class Weights:
    """What counts in a score how much: magnitude, members' likeness, gradients' agreement."""

    magnitude: float = 0.5
    coherence: float = 0.25
    consistency: float = 0.25


def scores(
    weight: Tensor, members: Tensor, gradients: Tensor | None, of: Weights, relative: bool
) -> Tensor:
    """Return how much each number of a group's `weight` is worth keeping.

    ``a * |w| / max |w| + b * coh + c * con``.

    Parameters
    ----------
    members : [k, ...], the members' own weights: ``coh`` is ``1 / (1 + Var)`` over its largest,
        Var the population's; `relative`: Var over its mean.
    gradients : [k, ...], one batch's of members: ``con`` is ``|mean sign|``; None: 1.
    """
    size = weight.abs()
    variance = members.var(0, unbiased=False)
    if relative:
        variance = variance / variance.mean().clamp(min=1e-30)
    alike = 1 / (1 + variance)
    agree = torch.ones_like(weight) if gradients is None else gradients.sign().mean(0).abs()
    return (
        of.magnitude * size / size.max().clamp(min=1e-30)
        + of.coherence * alike / alike.max()
        + of.consistency * agree
    )


def entropy(counts: Tensor) -> float:
    """Return the entropy of label counts [classes], nats."""
    shares = counts.double() / counts.sum()
    held = shares[shares > 0]
    return float(-(held * held.log()).sum())


def target_sparsity(entropy: float, classes: int, members: int) -> float:
    """Return the share of zeros of a group: the more labels and the more members, the fewer."""
    spread = entropy / math.log(classes) if classes > 1 else 0.0
    return min(max(0.7 - 0.2 * spread - 0.1 * min(members / 10, 1), LEAST), MOST)


def moves(numbers: int, active: int, target: float, start: float, left: int) -> tuple[int, int]:
    """Return how many weights of a layer to prune and to grow.

    Parameters
    ----------
    numbers, active : weights of the layer, and those that are not masked out.
    target, start : sparsity at the end, and the one that the first move goes to at once.
    left : moves left, this one included.
    """
    if active == numbers:
        return round(start * numbers), 0
    now = 1 - active / numbers
    churn = min(round(CHURN * active), numbers - active)
    push = round((target - now) * numbers / left)
    return (churn + push, churn) if push > 0 else (churn, churn - push)


def moved(mask: Tensor, score: Tensor, growth: Tensor, prune: int, grow: int) -> Tensor:
    """Return the mask without its `prune` lowest scores and with the `grow` highest growths.

    What is pruned now does not grow now.
    """
    pruned = lowest(score, mask, min(prune, int(mask.sum())))
    room = ~mask
    return (mask & ~pruned) | highest(growth, room, min(grow, int(room.sum())))
