"""A person's head: candidates on own and others' sums, mixed and calibrated by leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import (
    Candidates,
    Floats,
    Scale,
    Shared,
    alone,
    with_others,
)
from fedsub_core.closed_form.grids import (
    ALONE,
    ON_EACH,
    OWN_WEIGHTS,
    PENALTIES,
    TEMPERATURES,
    WITH_OTHERS,
)
from fedsub_core.closed_form.left_out import Blocks
from fedsub_core.closed_form.stacking import (
    Equations,
    log_losses,
    mixing_weights,
    normal_equations,
)
from fedsub_core.closed_form.sums import one_hot, statistics

#: Which heads are mixed.
MIXED, OWN, EVERYBODY = "mixed", "own", "everybody"
#: The candidate that is used where leave-one-out says nothing: a middle penalty, no own weight.
_MIDDLE = len(PENALTIES) // 2


@dataclass(frozen=True, eq=False)
class Head:
    """A person's head and what the server needs to pool of it.

    Parameters
    ----------
    weight : [classes, D], for features in units.
    bias : [classes].
    equations : of the person's samples alone.
    """

    weight: Floats
    bias: Floats
    equations: Equations


#: Sums that a candidate set is solved on: of some people, or for each class those of its own group.
Sums = Shared | Sequence[Shared]


def personal_head(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: int,
    sets: Sequence[Sums] = (),
    pooled: Equations | None = None,
    prior: float = 30.0,
    heads: str = MIXED,
) -> Head:
    """Return the head of a person with samples x [n, D], y [n], each class's in order of time.

    Parameters
    ----------
    sets : sums that the person's own samples are in: everybody's first. None: own samples alone.
    pooled : everybody's equations; None: the person's own decide.
    prior : as how many samples these count.
    heads : ``mixed``; or what it is held against: ``own`` samples alone, or ``everybody``'s sums
        without a weight of one's own.
    """
    everybody = sets[0] if sets else None
    assert everybody is None or isinstance(everybody, Shared)
    targets, blocks = 2 * one_hot(y, classes) - 1, Blocks.of(y)
    on: list[Candidates | _ByClass] = [
        alone(x, targets, Scale.of(statistics(x, y, classes), centre=True), blocks),
        *(_on(x, targets, one, blocks) for one in sets),
    ]
    if everybody is not None:
        on.insert(1, alone(x, targets, everybody.scale, blocks))
    lacking = np.flatnonzero(~one_hot(y, classes).any(0))
    candidates: list[Candidates | _ByClass | _Lent] = [*on]
    if everybody is not None and lacking.size:
        candidates = [_Lent(one, on[2], lacking) for one in on]
    said = np.concatenate([one.said for one in candidates])
    gram, target = normal_equations(said, targets)
    mine = Equations(len(y), gram, target, np.zeros(len(TEMPERATURES)))
    mixed = _mixture(mine.with_prior(pooled, prior), heads)
    losses = log_losses(np.tensordot(mixed, said, 1), y)
    both = replace(mine, losses=losses).with_prior(pooled, prior)
    temperature = TEMPERATURES[both.losses.argmin()]
    if pooled is not None:
        # What is pooled follows from samples alone: of whoever is forgotten nothing stays in it.
        losses = log_losses(np.tensordot(_mixture(mine, heads), said, 1), y)
    parts = np.split(mixed, np.cumsum([len(one.said) for one in candidates])[:-1])
    each = [one.head(temperature * part) for one, part in zip(candidates, parts, strict=True)]
    weight, bias = (sum(part) for part in zip(*each, strict=True))
    return Head(weight, bias, replace(mine, losses=losses))


def _mixture(of: Equations, heads: str) -> Floats:
    """Return how much each candidate counts, [K]."""
    candidates = len(of.target)
    some = _admitted(heads, candidates)
    mixed = np.zeros(candidates)
    mixed[some] = mixing_weights(of.gram[np.ix_(some, some)], of.target[some])
    if not mixed.any():
        plain = candidates <= ALONE or heads == OWN
        mixed[_MIDDLE if plain else ALONE + _MIDDLE // 2 * len(OWN_WEIGHTS)] = 1.0
    return mixed


def _admitted(heads: str, candidates: int) -> NDArray[np.intp]:
    """Return which candidates may be mixed."""
    if heads == OWN:
        return np.arange(min(ALONE, candidates))
    if heads == EVERYBODY and candidates > ALONE:
        return np.arange(ALONE, ALONE + ON_EACH, len(OWN_WEIGHTS))
    return np.arange(candidates)


def _on(
    x: NDArray[np.floating], targets: Floats, sums: Sums, blocks: Blocks
) -> Candidates | _ByClass:
    if isinstance(sums, Shared):
        return with_others(x, targets, sums, blocks)
    distinct = {id(one): one for one in sums}
    solved = {key: with_others(x, targets, one, blocks) for key, one in distinct.items()}
    return _ByClass([solved[id(one)] for one in sums])


class _ByClass:
    """Candidates of which each class's column is solved on the sums of that class's group."""

    def __init__(self, columns: Sequence[Candidates]) -> None:
        self.columns = columns
        self.said = np.stack([one.said[:, :, y] for y, one in enumerate(columns)], 2)
        self.penalties = columns[0].penalties

    def head(self, mixed: Floats) -> tuple[Floats, Floats]:
        """Return the mixed head: weight [classes, D], bias [classes]."""
        heads = {id(one): one.head(mixed) for one in self.columns}
        weights, biases = zip(*(heads[id(one)] for one in self.columns), strict=True)
        return (
            np.stack([weight[y] for y, weight in enumerate(weights)]),
            np.stack([bias[y] for y, bias in enumerate(biases)]),
        )


class _Lent:
    """Candidates whose columns of classes that the person has no sample of are everybody's.

    Own samples can only say that a class that they lack is never right: they do not weigh in it.
    """

    def __init__(
        self, of: Candidates | _ByClass, everybody: Candidates | _ByClass, lacking: NDArray[np.intp]
    ) -> None:
        self.of, self.everybody, self.lacking = of, everybody, lacking
        self.penalties = of.penalties
        said = of.said.copy()
        said[:, :, lacking] = everybody.said[self._plain(of.penalties)][:, :, lacking]
        self.said = said

    def head(self, mixed: Floats) -> tuple[Floats, Floats]:
        """Return the mixed head: weight [classes, D], bias [classes]."""
        weight, bias = self.of.head(mixed)
        lent = np.zeros(len(self.everybody.said))
        np.add.at(lent, self._plain(self.penalties), mixed)
        theirs, their_bias = self.everybody.head(lent)
        weight[self.lacking], bias[self.lacking] = theirs[self.lacking], their_bias[self.lacking]
        return weight, bias

    @staticmethod
    def _plain(penalties: Floats) -> NDArray[np.intp]:
        """Return everybody's candidates of these penalties or the next below, own weight 1."""
        return (np.searchsorted(WITH_OTHERS, penalties, "right") - 1) * len(OWN_WEIGHTS)
