"""Windows of one person's recordings: gaps split them, other rates are resampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.source import Rows
from fedsub_data.preparing.windows import window_starts

Array = NDArray[np.float64]
#: Of a recording's usual steps, where no gap is given: phones are late by a few.
GAP_STEPS = 10
#: How far a step may be from one sample of the rate, in samples, for rows to be taken as they are.
_JITTER = 0.1
#: And how far all of them together from the rate, relatively: a little in each step adds up.
_DRIFT = 0.02
#: A recording with so many times the rate or more is averaged first: faster waves would fold over.
_AVERAGED = 1.5


@dataclass(frozen=True)
class Cut:
    """How windows are cut: samples a second, a window's and a step's samples, purity, gap in s."""

    rate: float
    length: int
    step: int
    purity: float
    gap_s: float | None


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows: ``x`` float32 [n, F, time], ``y`` int64 [n], ``t`` float64 [n], s, their starts."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    t: Array


def windows(
    recordings: Sequence[Rows],
    cut: Cut,
    interpolate: bool,
    person: str,
    dropped: Dropped,
    aligned: float | None = None,
) -> Windows:
    """Return the windows of a person's recordings.

    Parameters
    ----------
    recordings : in the order of their time, which is in seconds.
    interpolate : whether NaN in ``x`` is filled from the rows around, but for pauses.
    dropped : gains windows without a label or of several, rows that are left over, and those
        in whose holes nothing can be filled.
    aligned : seconds; all windows begin whole steps from it, and are returned in order of time.
    """
    made: list[Windows] = []
    for one in recordings:
        stretches = list(_stretches(one, cut, interpolate))
        dropped.add(Why.MISSING, person, len(one) - sum(map(len, stretches)))
        for stretch in stretches:
            t, x, y = _at_rate(stretch, cut.rate)
            at, begins = _starts(t, cut, aligned)
            rows = len(stretch)
            if not len(at):
                dropped.add(Why.LEFT_OVER, person, rows)
                continue
            rest = len(t) - (at[-1] + cut.length - at[0])
            dropped.add(Why.LEFT_OVER, person, round(rest * rows / len(t)))
            label, share = majority(y, at, cut.length)
            mixed = (share < cut.purity) & (label >= 0)
            dropped.add(Why.UNLABELLED, person, int((label < 0).sum()))
            dropped.add(Why.MIXED, person, int(mixed.sum()))
            kept = (label >= 0) & ~mixed
            view = sliding_window_view(x, cut.length, axis=0)
            own = np.ascontiguousarray(view[at[kept]], np.float32)
            made.append(Windows(own, label[kept], begins[kept]))
    if not made:
        features = recordings[0].x.shape[1] if recordings else 0
        nothing = np.zeros((0, features, cut.length), np.float32)
        return Windows(nothing, np.zeros(0, np.int64), np.zeros(0))
    found = Windows(*(np.concatenate([getattr(m, k) for m in made]) for k in ("x", "y", "t")))
    if aligned is None:
        return found
    order = np.argsort(found.t, kind="stable")
    return Windows(found.x[order], found.y[order], found.t[order])


def _starts(t: Array, cut: Cut, aligned: float | None) -> tuple[NDArray[np.int64], Array]:
    """Return the rows at which windows of a stretch begin, and their times, s."""
    if aligned is None:
        starts = window_starts(0, len(t), cut.length, cut.step)
        at = np.arange(starts.start, starts.stop, starts.step)
        return at, t[at]
    step, sample = cut.step / cut.rate, 1 / cut.rate
    first = np.ceil((t[0] - sample / 2 - aligned) / step)
    begins = aligned + np.arange(first, (t[-1] - aligned) / step + 1) * step
    at = np.searchsorted(t, begins - sample / 2)
    whole = at + cut.length <= len(t)
    return at[whole], begins[whole]


def majority(
    y: NDArray[np.int64], starts: NDArray[np.int64], length: int
) -> tuple[NDArray[np.int64], Array]:
    """Return each window's most frequent label and its share of the rows; of equal ones the least.

    No label, -1, counts as one.
    """
    best = np.full(len(starts), -1, np.int64)
    most = np.zeros(len(starts), np.int64)
    for label in np.unique(y)[::-1]:
        sums = np.concatenate(([0], np.cumsum(y == label)))
        count = sums[starts + length] - sums[starts]
        ahead = (count >= most) if label >= 0 else (count > most)
        best[ahead], most[ahead] = label, count[ahead]
    return best, most / length


def _stretches(one: Rows, cut: Cut, interpolate: bool) -> Iterator[Rows]:
    """Yield a recording's rows between its pauses, without NaN."""
    assert one.t is not None
    if len(one) < 2:
        yield one
        return
    gap = cut.gap_s if cut.gap_s is not None else GAP_STEPS * float(np.median(np.diff(one.t)))
    if interpolate:
        one = _filled(one, gap)
    assert one.t is not None
    breaks = np.flatnonzero(np.diff(one.t) > gap) + 1
    for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(one)], strict=True):
        if end > begin:
            yield one.part(slice(begin, end))


def _filled(one: Rows, gap: float) -> Rows:
    """Return the rows with NaN interpolated in time, without those in the middle of a gap."""
    assert one.t is not None
    x = one.x.copy()
    lost = np.zeros(len(one), np.bool_)
    for column in x.T:
        there = np.flatnonzero(np.isfinite(column))
        holes = np.flatnonzero(~np.isfinite(column))
        if not len(holes):
            continue
        after = np.searchsorted(there, holes)
        inside = (after > 0) & (after < len(there))
        lost[holes[~inside]] = True
        holes, after = holes[inside], after[inside]
        if not len(holes):
            continue
        wide = one.t[there[after]] - one.t[there[after - 1]] > gap
        lost[holes[wide]] = True
        column[holes] = np.interp(one.t[holes], one.t[there], column[there])
    own = Rows(one.person, one.file, one.row, one.y, one.t, x)
    return own.part(~lost) if lost.any() else own


def _at_rate(one: Rows, rate: float) -> tuple[Array, NDArray[np.float32], NDArray[np.int64]]:
    """Return times, values and labels with `rate` samples a second.

    Rows that come with that rate are taken as they are. Others are interpolated linearly, after an
    average where there are many more of them; a sample's label is its nearest row's.
    """
    assert one.t is not None
    t = one.t
    if len(t) < 2:
        return t, one.x, one.y
    steps, samples = len(t) - 1, float(t[-1] - t[0]) * rate
    steady = (np.abs(np.diff(t) * rate - 1) <= _JITTER).all()
    if steady and abs(samples - steps) <= max(_DRIFT * steps, 2 * _JITTER):
        return t, one.x, one.y
    own = steps / float(t[-1] - t[0])
    x = _averaged(one.x, round(own / rate)) if own >= _AVERAGED * rate else one.x
    # The last sample must not be lost to a rounding error.
    grid = t[0] + np.arange(int((t[-1] - t[0]) * rate + 1e-6) + 1) / rate
    values = np.empty((len(grid), x.shape[1]), np.float32)
    for i in range(x.shape[1]):
        values[:, i] = np.interp(grid, t, x[:, i])
    after = np.clip(np.searchsorted(t, grid), 1, len(t) - 1)
    nearest = after - (grid - t[after - 1] < t[after] - grid)
    return grid, values, one.y[nearest]


def _averaged(x: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Return the mean of about `width` rows around each, of fewer at the ends.

    As many on either side: else values would move in time.
    """
    sums = np.concatenate((np.zeros((1, x.shape[1])), np.cumsum(x, axis=0, dtype=np.float64)))
    at = np.arange(len(x))
    side = np.minimum(np.minimum(at, len(x) - 1 - at), width // 2)
    begin, end = at - side, at + side + 1
    mean: NDArray[np.float64] = (sums[end] - sums[begin]) / (end - begin)[:, None]
    return mean.astype(np.float32)
