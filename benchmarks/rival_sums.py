"""Rivals that send sums once, after what abstracts and public summaries of their papers say.

Neither paper has public code that we found, and neither full text was read: where a summary is
silent, the choice is ours, and it is made by leave-one-out on training samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rival_heads import Features, Ridge, judged, signs, temperature
from rival_learners import logs, softmax
from rival_parts import Floats, Person, Table
from scipy.special import ndtri

from fedsub_core.closed_form.grids import packed
from fedsub_core.seeds import derive_seed

#: Random projections of two streams; how much the second may count.
WIDTH, SHARES = 1000, (0.0, 0.25, 0.5, 1.0)
#: Thresholds of a feature and bits of a group, of which SAFLe's are chosen.
SHAPES = ((1, 4), (3, 4), (3, 6), (7, 4), (15, 4), (15, 6))
#: Columns that are solved for at most.
MOST = 2**13
#: Bytes of a number that is sent.
NUMBER = 4


@dataclass(frozen=True, eq=False)
class Sent:
    """What is said of each person's tested samples, and the bytes that each sends up."""

    logits: list[Floats]
    bytes_up: float


def bytes_of_sums(columns: int, classes: int) -> float:
    """Return the bytes of a triangle of products and of the sums by class."""
    return float(NUMBER * (packed(columns) + classes * (columns + 1)))


def two_streams(table: Table) -> Sent:
    """Return analytic personalised learning by two streams (arXiv 2508.10732).

    Everybody's sums give a ridge head on the encoder's features z. Each person fits a second one,
    on tanh(zR) of a random R, to what the first leaves of the own samples. (A first stream on
    max(0, zR) and a second one on tanh(z) were worse by leave-one-out in most tables.)
    """
    people, classes = table.encoded, table.classes
    x, y = (np.concatenate([getattr(one, part) for one in people]) for part in "xy")
    scale, width = Features.of(x), x.shape[1]
    draws = np.random.default_rng(derive_seed(table.seed, "", 0, "two streams"))
    projection = draws.normal(0, width**-0.5, (width, WIDTH))
    shared = Ridge.of(scale(x), signs(y, classes), y)
    left_out = np.split(shared.left_out, np.cumsum([len(one.y) for one in people])[:-1])
    second, tested = [], []
    for one, without in zip(people, left_out, strict=True):
        z, new = scale(one.x), scale(one.tested)
        drawn = np.tanh(z @ projection)
        middle = drawn.mean(0)
        rest = signs(one.y, classes) - shared(z)
        own = Ridge.of(drawn - middle, rest, one.y, without)
        second.append((without, own.left_out))
        tested.append((shared(new), own(np.tanh(new @ projection) - middle)))
    share, factor = _best_share(second, people)
    said = [logs(softmax(factor * (a + share * b))) for a, b in tested]
    return Sent(said, bytes_of_sums(width, classes))


def _best_share(
    said: Sequence[tuple[Floats, Floats]], people: Sequence[Person]
) -> tuple[float, float]:
    """Return the weight of everybody's second stream, and the scores' temperature."""
    y = np.concatenate([one.y for one in people])
    sums = {s: np.concatenate([a + s * b for a, b in said]) for s in SHARES}
    share = min(sums, key=lambda s: judged(sums[s], y))
    return share, temperature(sums[share], y)


def safle(table: Table) -> Sent:
    """Return SAFLe (arXiv 2512.03336): one ridge head over cells of groups of bits.

    Each feature is compared with overlapping thresholds, its bits are shuffled by the seed and
    grouped, and each group's bits name one of its cells. Of windows the features are the encoder's.
    """
    people = table.encoded if table.windows else list(table.scaled)
    x, y = (np.concatenate([getattr(one, part) for one in people]) for part in "xy")
    scale = Features.of(x)
    best: tuple[tuple[float, float], Cells, Ridge] | None = None
    for thresholds, bits in SHAPES:
        cells = Cells.drawn(x.shape[1], thresholds, bits, table.seed)
        if cells.columns > MOST or (len(y) > MOST and cells.columns > MOST // 4):
            continue
        head = Ridge.of(cells(scale(x)), signs(y, table.classes), y)
        how = judged(head.left_out, y)
        if best is None or how < best[0]:
            best = how, cells, head
    assert best is not None
    _, cells, head = best
    factor = temperature(head.left_out, y)
    said = [logs(softmax(factor * head(cells(scale(one.tested))))) for one in people]
    return Sent(said, bytes_of_sums(cells.columns, table.classes))


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of bits, and of each group a column for each of its cells.

    Parameters
    ----------
    thresholds : [T], in deviations from a feature's mean.
    groups : [G, bits], which of the features' bits.
    """

    thresholds: Floats
    groups: NDArray[np.intp]

    @classmethod
    def drawn(cls, features: int, thresholds: int, bits: int, seed: int) -> Cells:
        """Return groups of shuffled bits; those that fill no group begin anew."""
        draws = np.random.default_rng(derive_seed(seed, "", bits, "cells"))
        order = draws.permutation(features * thresholds)
        order = np.resize(order, -(-len(order) // bits) * bits)
        levels = ndtri(np.arange(1, thresholds + 1) / (thresholds + 1))
        return cls(np.asarray(levels, np.float64), order.reshape(-1, bits))

    @property
    def columns(self) -> int:
        """How many cells there are."""
        return len(self.groups) << int(self.groups.shape[1])

    def __call__(self, z: Floats) -> Floats:
        """Return 1 in each group's cell that a sample is in, [n, columns], of standardised ones."""
        bits = (z[:, :, None] > self.thresholds).reshape(len(z), -1)
        places = 1 << np.arange(self.groups.shape[1])
        cells = bits[:, self.groups] @ places
        found = np.zeros((len(z), len(self.groups), int(places.sum()) + 1))
        np.put_along_axis(found, cells[:, :, None], 1.0, 2)
        return found.reshape(len(z), -1)
