"""By how much one model is better than another on the same samples, as far as these can tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]
#: An interval's ends are then the 8th smallest and greatest; every evaluated client has one.
RESAMPLES = 300
#: Blocks that a client's samples are cut into at least: fewer tell of no spread.
BLOCKS = 5
#: From where on a normal distribution's share is 2.5 %.
NORMAL = 1.959964


class Gain(NamedTuple):
    """A difference of macro F1, and its 95 % interval; each in [-1, 1]."""

    mean: float
    low: float
    high: float


def paired_gain(y: Labels, ours: Labels, theirs: Labels, seed: int, together: int = 1) -> Gain:
    """Return macro F1 of predictions `ours` less that of `theirs`, on samples of labels `y`.

    The interval is a paired percentile bootstrap over samples (Efron and Tibshirani 1993, chapter
    13). Of one client's samples it is that they are few which it measures, not that others would
    differ. Windows that overlap hold much the same and are right or wrong together: they are drawn
    in blocks, which go round (the circular block bootstrap, Politis and Romano 1992). What blocks
    miss of the spread, as they tear windows apart at their ends, and as they are few, is added.
    Who has fewer than :data:`BLOCKS` samples is told nothing: the interval is -1 to 1.

    Parameters
    ----------
    y, ours, theirs : int64 [n], n > 0, in the order of time where samples hang together.
    together : so many windows later one has nothing in common with this one; 1: none overlap.
    """
    if len(y) >= BLOCKS and np.array_equal(ours, theirs):  # in all resamples, too
        return Gain(0.0, 0.0, 0.0)
    classes = int(max(y.max(), ours.max(), theirs.max())) + 1
    cells, place, counts = np.unique(
        (y * classes + ours) * classes + theirs, return_inverse=True, return_counts=True
    )
    rng, block = np.random.default_rng(seed), min(2 * together, len(y) // BLOCKS)
    if together > 1 and block > 1:
        starts = np.full(len(y), 1 / len(y))
        drawn = rng.multinomial(-(-len(y) // block), starts, RESAMPLES)
        drawn = drawn @ _blocks(place, len(cells), block)
    else:
        block = 1
        drawn = rng.multinomial(len(y), counts / len(y), RESAMPLES)
    each: Floats = np.concatenate([counts[None], drawn]).astype(np.float64)
    truth, first, second = cells // classes**2, cells // classes % classes, cells % classes
    difference = _macro_f1(each, truth, first, classes) - _macro_f1(each, truth, second, classes)
    mean = float(difference[0])
    if len(y) < BLOCKS:
        return Gain(mean, -1.0, 1.0)
    low, high = np.percentile(difference[1:], [2.5, 97.5])
    wider = _student(len(y) / block - 1) / NORMAL / _kept(block, together) ** 0.5
    low, high = (mean + wider * min(low - mean, 0), mean + wider * max(high - mean, 0))
    return Gain(mean, float(max(low, -1)), float(min(high, 1)))


def _kept(block: int, together: int) -> float:
    """Return the share of a mean's variance that is left when blocks are drawn.

    Of windows of which `together` overlap, so that what two have in common falls evenly with the
    distance between them (Kuensch 1989, on what blocks keep of covariances).
    """
    near = np.arange(1, together)
    common = 1 - near / together
    kept = 1 + 2 * (common * np.clip(1 - near / block, 0, None)).sum()
    return float(kept / (1 + 2 * common.sum()))


def _student(freedom: float) -> float:
    """Return from where on Student's distribution has 2.5 %; `freedom` of 4 or more.

    By its expansion (Abramowitz and Stegun 1964, 26.7.5), exact to the second digit.
    """
    z, f = NORMAL, freedom
    return (
        z
        + (z**3 + z) / (4 * f)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * f**3)
    )


def _blocks(place: Labels, cells: int, block: int) -> Labels:
    """Return how many of each cell the block from each sample on holds, int64 [n, cells]."""
    one = np.eye(cells, dtype=np.int64)[np.append(place, place[: block - 1])]
    sums = np.concatenate([np.zeros((1, cells), np.int64), one.cumsum(0)])
    blocks: Labels = sums[block:] - sums[:-block]
    return blocks


def _macro_f1(counts: Floats, y: Labels, predicted: Labels, classes: int) -> Floats:
    """Return the macro F1 [resamples] of counts [resamples, cells] of labels and predictions."""
    one = np.eye(classes)
    support, said = counts @ one[y], counts @ one[predicted]
    hits = (counts * (y == predicted)) @ one[y]
    total = support + said
    found: Floats = (2 * hits / np.maximum(total, 1)).sum(1) / (total > 0).sum(1)
    return found
