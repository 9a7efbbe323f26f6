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
    Span,
    alone,
    counted,
    with_others,
)
from fedsub_core.closed_form.columns import ByClass, Lent
from fedsub_core.closed_form.grids import (
    ALONE,
    ON_EACH,
    OWN_WEIGHTS,
    PENALTIES,
    STRETCHES,
    TEMPERATURES,
)
from fedsub_core.closed_form.left_out import Blocks
from fedsub_core.closed_form.stacking import (
    Equations,
    log_losses,
    mixing_weights,
    normal_equations,
)
from fedsub_core.closed_form.sums import one_hot

#: Which heads are mixed.
MIXED, OWN, EVERYBODY = "mixed", "own", "everybody"
#: The candidate that is used where leave-one-out says nothing: a middle penalty, no own weight.
_MIDDLE = len(PENALTIES) // 2
#: By so much, nats, the score falls of a class that is not answered.
_CLOSED = 20.0


@dataclass(frozen=True, eq=False)
class Head:
    """A person's head and what the server needs to pool of it.

    Parameters
    ----------
    weight : [classes, D], for features in units.
    bias : [classes].
    equations : of the person's samples alone.
    alone : weight and bias of the head that the person has without others.
    """

    weight: Floats
    bias: Floats
    equations: Equations
    alone: tuple[Floats, Floats]


#: Sums that a candidate set is solved on: of some people, or for each class those of its own group.
Sums = Shared | Sequence[Shared]
#: A person's candidates by the sums that they are solved on; None: on own samples alone.
Solved = dict[Shared | None, tuple[Candidates, ...]]


@dataclass(frozen=True)
class Mixing:
    """How a person's candidates are mixed.

    Parameters
    ----------
    prior : as how many samples everybody's equations count.
    heads : ``mixed``; or what it is held against: ``own`` samples alone, or ``everybody``'s sums
        without a weight of one's own.
    lent_from : of how many samples a class is everybody's to lend. Of a class that is not, a person
        without a sample of it can but say that it is never right: own samples tell nothing else,
        so nothing would be said against noise in its place.
    lends : whether classes that the person has no sample of are everybody's; else they are not
        answered.
    stretches : into how many each class's samples are cut that are left out at once; 0: single
        samples are.
    """

    prior: float = 30.0
    heads: str = MIXED
    lent_from: float = 0.0
    lends: bool = True
    stretches: int = STRETCHES


def personal_head(
    x: NDArray[np.floating],
    y: NDArray[np.int64],
    classes: int,
    sets: Sequence[Sums] = (),
    pooled: Equations | None = None,
    how: Mixing | None = None,
    solved: Solved | None = None,
    weights: Floats | None = None,
) -> Head:
    """Return the head of a person with samples x [n, D], y [n], each class's in order of time.

    Parameters
    ----------
    sets : sums that the person's own samples are in: everybody's first. None: own samples alone.
    pooled : everybody's equations; None: the person's own decide.
    how : by default as :class:`Mixing` says.
    solved : candidates of these same samples that are known already; those that are needed beside
        are added.
    weights : [n], how much each sample counts; None: all once. Sums hold them so, too.
    """
    how, solved = how or Mixing(), {} if solved is None else solved
    root = None if weights is None else np.sqrt(weights)
    blocks = Blocks.of(y, how.stretches or len(y))
    targets = counted(2 * one_hot(y, classes) - 1, root)
    on = _candidates(x, targets, sets, blocks, solved, root)
    lacking = ~one_hot(y, classes).any(0)
    candidates: list[Candidates | ByClass | Lent] = [*on]
    if sets and lacking.any() and how.lends and how.heads != OWN:
        lent = np.flatnonzero(lacking & (_everybody(sets).sums.counts >= how.lent_from))
        candidates = [Lent(one, on[2], lent) for one in on]
    said = np.concatenate([one.said for one in candidates])
    gram, target = normal_equations(said, targets)
    samples = len(y) if weights is None else float(weights.sum())
    mine = Equations(samples, gram, target, np.zeros(len(TEMPERATURES)))
    closed = np.zeros(classes)
    closed[lacking] = 0.0 if how.lends else -_CLOSED

    def lost(mixed: Floats) -> Floats:
        return _losses(np.tensordot(mixed, said, 1), y, closed, root)

    mixed = _mixture(mine.with_prior(pooled, how.prior), how.heads)
    losses = lost(mixed)
    both = replace(mine, losses=losses).with_prior(pooled, how.prior)
    temperature = TEMPERATURES[both.losses.argmin()]
    if pooled is not None:
        # What is pooled follows from samples alone: of whoever is forgotten nothing stays in it.
        losses = lost(_mixture(mine, how.heads))
    parts = np.split(mixed, np.cumsum([len(one.said) for one in candidates])[:-1])
    each = [
        one.head(temperature * part, x, root) for one, part in zip(candidates, parts, strict=True)
    ]
    weight, bias = (sum(part) for part in zip(*each, strict=True))
    mine = replace(mine, losses=losses)
    (own,) = solved[None]
    return Head(weight, bias + closed, mine, _without_others(own, x, targets, y, root))


def _everybody(sets: Sequence[Sums]) -> Shared:
    everybody = sets[0]
    assert isinstance(everybody, Shared)
    return everybody


def _candidates(
    x: NDArray[np.floating],
    targets: Floats,
    sets: Sequence[Sums],
    blocks: Blocks,
    solved: Solved,
    root: Floats | None,
) -> list[Candidates | ByClass]:
    """Return candidates on own samples, in own units and everybody's, then on each of the sums."""
    if None not in solved:
        solved[None] = (alone(Span.of(x, Scale.centred(x), root), targets, blocks),)
    if not sets:
        return [*solved[None]]
    everybody = _everybody(sets)
    if everybody not in solved:
        span = Span.of(x, everybody.scale, root)
        plain = alone(span, targets, blocks)
        solved[everybody] = plain, with_others(span, targets, everybody, blocks)
    more = [_on(x, targets, one, blocks, solved, root) for one in sets[1:]]
    return [*solved[None], *solved[everybody], *more]


def _losses(
    said: Floats, y: NDArray[np.int64], closed: Floats | float, root: Floats | None
) -> Floats:
    """Return the losses of what is said of samples that count `root` squared times."""
    if root is None:
        return log_losses(said, y, closed)
    return log_losses(said / root[:, None], y, closed, root**2)


def _without_others(
    own: Candidates,
    x: NDArray[np.floating],
    targets: Floats,
    y: NDArray[np.int64],
    root: Floats | None,
) -> tuple[Floats, Floats]:
    """Return weight and bias of own candidates, mixed and calibrated by own samples alone."""
    equations = Equations(len(y), *normal_equations(own.said, targets), np.zeros(0))
    mixed = _mixture(equations, OWN)
    losses = _losses(np.tensordot(mixed, own.said, 1), y, 0.0, root)
    return own.head(TEMPERATURES[losses.argmin()] * mixed, x, root)


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
    x: NDArray[np.floating],
    targets: Floats,
    sums: Sums,
    blocks: Blocks,
    solved: Solved,
    root: Floats | None,
) -> Candidates | ByClass:
    def on(shared: Shared) -> Candidates:
        if shared not in solved:
            span = Span.of(x, shared.scale, root)
            solved[shared] = (with_others(span, targets, shared, blocks),)
        return solved[shared][-1]

    return on(sums) if isinstance(sums, Shared) else ByClass([on(one) for one in sums])
