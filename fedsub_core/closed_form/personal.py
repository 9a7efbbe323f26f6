"""A person's head: candidates on own and others' sums, mixed and calibrated by leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import Candidates, Shared, Span, alone, with_others
from fedsub_core.closed_form.columns import ByClass, Lent
from fedsub_core.closed_form.grids import PRIOR, STRETCHES
from fedsub_core.closed_form.left_out import Blocks
from fedsub_core.closed_form.lending import CLOSED, Holders
from fedsub_core.closed_form.mixture import LeftOut
from fedsub_core.closed_form.prior import MIXED, OWN, Prior
from fedsub_core.closed_form.scale import Floats, Samples, Scale, counted
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import one_hot, strata


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


@dataclass(eq=False)
class Solved:
    """What is known already of a person's samples.

    Parameters
    ----------
    on : candidates by the sums that they are solved on; None: on own samples alone.
    alone : weight and bias of the head without others; None: it is not known.
    """

    on: dict[Shared | None, tuple[Candidates, ...]] = field(default_factory=dict)
    alone: tuple[Floats, Floats] | None = None


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
    noisy : whether there is noise on others' sums.
    lends : whether classes that the person has no sample of are everybody's; else they are not
        answered.
    holders : who has each class; None: whatever is lent is thought to be done.
    stretches : into how many each class's samples are cut that are left out at once; 0: single
        samples are.
    """

    prior: float = PRIOR
    heads: str = MIXED
    lent_from: float = 0.0
    noisy: bool = False
    lends: bool = True
    holders: Holders | None = None
    stretches: int = STRETCHES


def personal_head(
    x: NDArray[np.floating],
    y: NDArray[Any],
    classes: int,
    sets: Sequence[Sums] = (),
    pooled: Equations | None = None,
    how: Mixing | None = None,
    solved: Solved | None = None,
    weights: Floats | None = None,
) -> Head:
    """Return the head of a person with samples x [n, D], y [n], each class's in order of time.

    Of a target y is its places in the range, float32: the head's two outputs are the place and its
    opposite.

    A sample that is its class's only one tells nothing of candidates: where it is left out, they do
    not know the class. It counts in heads alone.

    Parameters
    ----------
    sets : sums that the person's own samples are in: everybody's first. None: own samples alone.
    pooled : everybody's equations; None: the person's own decide.
    how : by default as :class:`Mixing` says.
    solved : of these same samples; what is needed beside is added.
    weights : [n], how much each sample counts; None: all once. Sums hold them so, too.
    """
    how, solved = how or Mixing(), solved or Solved()
    root = None if weights is None else np.sqrt(weights)
    samples = Samples(x, root)
    held = one_hot(y, classes)
    targets = counted(2 * held - 1, root)
    blocks = Blocks.of(strata(y), how.stretches or len(y))
    on = _candidates(samples, targets, sets, blocks, solved)
    lacking, own = ~held.any(0) & (y.dtype.kind != "f"), on[0]
    candidates: list[Candidates | ByClass | Lent] = [*on]
    closed = np.where(lacking & (not how.lends), -CLOSED, 0.0)
    if sets and lacking.any() and how.lends and how.heads != OWN:
        counts = _everybody(sets).sums.counts
        lent = lacking & (counts >= how.lent_from)
        candidates = [Lent(one, on[2], np.flatnonzero(lent)) for one in on]
        if how.holders is not None:
            closed = np.where(lent, how.holders.odds(counts, len(y)), 0.0)
    left_out = _left_out(y, held, targets, root)
    summed = _everybody(sets).sums.counts.sum() if sets and pooled else 0.0
    prior = Prior(how.prior, pooled, float(summed), how.noisy)
    said = np.concatenate([one.said for one in candidates])
    mixed, temperature, mine = left_out.mixture(said, how.heads, prior, closed)
    weight, bias = _mixed_head(candidates, temperature * mixed, samples)
    solved.alone = solved.alone or _alone(own, left_out, samples)
    return Head(weight, bias + closed, mine, solved.alone)


def head_alone(
    x: NDArray[np.floating], y: NDArray[Any], classes: int, solved: Solved | None = None
) -> tuple[Floats, Floats]:
    """Return weight [classes, D] and bias [classes] of the head that a person has without others.

    It is :attr:`Head.alone` where all samples count once; parameters are :func:`personal_head`'s.
    """
    solved = solved or Solved()
    if solved.alone is None:
        samples, held = Samples(x), one_hot(y, classes)
        targets = 2 * held - 1
        (own,) = _candidates(samples, targets, (), Blocks.of(strata(y), STRETCHES), solved)
        solved.alone = _alone(own, _left_out(y, held, targets, None), samples)
    return solved.alone


def _left_out(y: NDArray[Any], held: Floats, targets: Floats, root: Floats | None) -> LeftOut:
    """Return the samples of labels y [n], `held` [n, classes] as one-hot."""
    known = np.full(len(y), len(y) > 1) if y.dtype.kind == "f" else held.sum(0)[y] > 1
    return LeftOut(y, targets, known, root)


def _alone(own: Candidates | ByClass, left_out: LeftOut, samples: Samples) -> tuple[Floats, Floats]:
    """Return the head of a person's own candidates, by its own samples."""
    nothing = np.zeros(left_out.targets.shape[1])
    mixed, temperature, _ = left_out.mixture(own.said, OWN, Prior(), nothing)
    return own.head(temperature * mixed, samples)


def _mixed_head(
    candidates: Sequence[Candidates | ByClass | Lent],
    mixed: Floats,
    samples: Samples,
) -> tuple[Floats, Floats]:
    """Return weight and bias of all candidates' sum, each `mixed` [K] times."""
    parts = np.split(mixed, np.cumsum([len(one.said) for one in candidates])[:-1])
    each = [one.head(part, samples) for one, part in zip(candidates, parts, strict=True)]
    weight, bias = (sum(part) for part in zip(*each, strict=True))
    return weight, bias


def _everybody(sets: Sequence[Sums]) -> Shared:
    everybody = sets[0]
    assert isinstance(everybody, Shared)
    return everybody


def _candidates(
    samples: Samples, targets: Floats, sets: Sequence[Sums], blocks: Blocks, solved: Solved
) -> list[Candidates | ByClass]:
    """Return candidates on own samples, in own units and everybody's, then on each of the sums."""
    on = solved.on
    if None not in on:
        on[None] = (alone(Span.of(samples, Scale.centred(samples.x)), targets, blocks),)
    if not sets:
        return [*on[None]]
    everybody = _everybody(sets)
    if everybody not in on:
        span = Span.of(samples, everybody.scale)
        plain = alone(span, targets, blocks)
        on[everybody] = plain, with_others(span, targets, everybody, blocks)
    more = [_on(samples, targets, one, blocks, solved) for one in sets[1:]]
    return [*on[None], *on[everybody], *more]


def _on(
    samples: Samples, targets: Floats, sums: Sums, blocks: Blocks, solved: Solved
) -> Candidates | ByClass:
    def on(shared: Shared) -> Candidates:
        if shared not in solved.on:
            span = Span.of(samples, shared.scale)
            solved.on[shared] = (with_others(span, targets, shared, blocks),)
        return solved.on[shared][-1]

    return on(sums) if isinstance(sums, Shared) else ByClass([on(one) for one in sums])
