"""Pools of sub-models: how many units of each hidden layer, and what these cost.

A hidden layer is a group of units: those of layers whose outputs are added are one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, prod
from typing import Any

import numpy as np

from fedsub_core.models.architecture import Architecture
from fedsub_core.models.model import Model
from fedsub_core.models.units import units_at
from fedsub_papers.models.slicing import slice_groups

#: How many units a sub-model has, by group.
Counts = Mapping[str, int]


def whole(model: Model, hyper: Any, capacity: float) -> Model:
    """Return the model as it is: how many units come is not known beforehand."""
    return model


def numbers(model: Architecture) -> int:
    """Return how many numbers a model has."""
    return sum(prod(shape) for shape in model.parameter_shapes.values())


def shapes_at(model: Model, counts: Counts) -> dict[str, list[int]]:
    """Return the shapes of a model's tensors with the first units alone, so many of each group."""
    found = {name: list(shape) for name, shape in model.parameter_shapes.items()}
    for group in model.unit_groups:
        for member in group.members:
            if member.tensor in found:
                left_out = member.owners >= counts.get(group.name, group.size)
                found[member.tensor][member.axis] -= int(left_out.sum())
    return found


def numbers_at(model: Model, counts: Counts) -> int:
    """Return how many numbers a model has with so many units of each group."""
    return sum(map(prod, shapes_at(model, counts).values()))


def with_counts(model: Model, counts: Counts) -> Model:
    """Return the model with the first units alone, so many of each group."""
    return model.narrow({name: np.arange(count) for name, count in counts.items()})[0]


@dataclass(frozen=True)
class Level:
    """A sub-model of AdaptiveFL's pool.

    Parameters
    ----------
    kind : 0 small, 1 medium, 2 large.
    counts : units of each group.
    share : of the model's numbers.
    """

    kind: int
    counts: dict[str, int]
    share: float


def pool_of(model: Model, widths: Sequence[float], starts: Sequence[int]) -> tuple[Level, ...]:
    """Return small sub-models, medium ones and the whole model, of each kind by size.

    One for each width and start: hidden layers from `start` on, counted from 1, have that share of
    their units, those before it all. What is like another is left out. Jia et al., AdaptiveFL,
    section III-B.
    """
    groups, full = slice_groups(model), numbers(model)
    whole = {group.name: group.size for group in groups}
    found: list[Level] = []
    for kind, width in enumerate(widths):
        some: list[Level] = []
        for start in starts:
            counts = {
                g.name: units_at(width, g.size) if at >= start else g.size
                for at, g in enumerate(groups, 1)
            }
            known = [level.counts for level in found + some]
            if counts != whole and counts not in known:
                some.append(Level(kind, counts, numbers_at(model, counts) / full))
        found += sorted(some, key=lambda level: level.share)
    return (*found, Level(len(widths), whole, 1.0))


def largest_fitting(pool: Sequence[Level], capacity: float, most: int | None = None) -> int:
    """Return the place of the largest of the pool's first models that a device can hold.

    That is ``capacity**2`` of the numbers; the smallest of all, where none fits. `most` is the
    place of the model that was drawn, than which it shall not be larger; None: any.
    """
    last = len(pool) - 1 if most is None else most
    places = [i for i in range(last + 1) if pool[i].share <= pool[last].share]
    fits = [i for i in places if pool[i].share <= capacity**2 + 1e-9]
    smallest = min(places, key=lambda i: pool[i].share)
    return max(fits, key=lambda i: pool[i].share, default=smallest)


def room_for(model: Model, hyper: Any, capacity: float) -> Model:
    """Return the part of a model in which all models lie that AdaptiveFL may send a device."""
    if capacity == 1:
        return model
    pool = pool_of(model, hyper.widths(), hyper.starts_at())
    places = {largest_fitting(pool, capacity, most) for most in range(len(pool))}
    counts = [pool[i].counts for i in places]
    return with_counts(model, {name: max(one[name] for one in counts) for name in counts[0]})


def sparse_widths(scores: Sequence[float], t: float) -> list[float]:
    """Return each hidden layer's share of units, ``clamp(score * t, 0.01, 1)``."""
    return [min(max(score * t, 0.01), 1.0) for score in scores]


def width_scores(apoz: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """Return ``1 - apoz * ln(size) / ln(max size)`` of each hidden layer, from its zeros.

    Chen et al., FlexFL, section IV-A: large layers with many zeros are cut most.
    """
    largest = log(max(sizes))
    shares = [log(size) / largest if largest else 1.0 for size in sizes]
    return [1 - zeros * share for zeros, share in zip(apoz, shares, strict=True)]


def widths_for(model: Model, apoz: Sequence[float], share: float) -> dict[str, int]:
    """Return units of each group of the largest sub-model with `share` of the numbers at most.

    `apoz` are shares of zeros, in the order of the groups.

    t is the largest of 100/1, 100/2, ... that fits, as in FlexFL's code, which ends at 100/199;
    where no such model fits, the smallest of all.
    """
    hidden, shapes = slice_groups(model), model.parameter_shapes
    if not hidden:
        return {}
    made = [{m.tensor for m in g.members if not m.reads and m.tensor in shapes} for g in hidden]
    sizes = [max(1, sum(prod(shapes[name]) for name in own)) for own in made]
    scores, full = width_scores(apoz, sizes), numbers(model)

    def counts(k: int) -> dict[str, int]:
        widths = sparse_widths(scores, 100 / k)
        pairs = zip(hidden, widths, strict=True)
        return {group.name: units_at(width, group.size) for group, width in pairs}

    least, most = 1, 10**6  # sizes fall as k grows
    while least < most:
        k = (least + most) // 2
        if numbers_at(model, counts(k)) <= share * full + 1e-6:
            most = k
        else:
            least = k + 1
    return counts(least)
