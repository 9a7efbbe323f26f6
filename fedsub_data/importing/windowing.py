"""Windows of one person's recordings; none spans a gap."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.resampling import at_rate, check_upsampling
from fedsub_data.importing.source import Rows
from fedsub_data.preparing.windows import window_starts

Array = NDArray[np.float64]
#: Of a recording's usual steps, where no gap is given: phones are late by a few.
GAP_STEPS = 10


@dataclass(frozen=True)
class Cut:
    """The cut into windows: samples a second, a window's and a step's samples, purity, gap in s.

    `asked` is whether somebody said the rate, so that more slowly sampled signals may be filled up.
    """

    rate: float
    length: int
    step: int
    purity: float
    gap_s: float | None
    asked: bool = False


@dataclass(frozen=True)
class Kept:
    """What is kept beside whole rows and windows with a label: see :func:`windows`."""

    interpolate: bool = False
    unlabelled: bool = False
    values: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows: ``x`` float32 [n, F, time], ``y`` int64 [n], ``t`` float64 [n], s, their starts.

    Of a target ``y`` is float64. `recording` is the number of each one's recording, int64 [n].
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    t: Array
    recording: NDArray[np.int64]


def windows(
    recordings: Sequence[Rows],
    cut: Cut,
    how: Kept,
    person: str,
    dropped: Dropped,
    aligned: float | None = None,
) -> Windows:
    """Return the windows of a person's recordings.

    Parameters
    ----------
    recordings : in the order of their time, which is in seconds.
    how : `interpolate`, whether NaN in ``x`` is filled from the rows around, but for pauses, and
        `unlabelled`, whether windows without a label are kept, whose ``y`` is -1; `values` of a
        target, by label and of none last: a window's is the mean of its rows that have one, NaN if
        these are a smaller share than the cut's purity.
    dropped : gains windows without a label or of several, rows that are left over, those in whose
        holes nothing can be filled, and what was resampled.
    aligned : seconds; all windows begin whole steps from it, and are returned in order of time.

    Raises DataError where a recording has less than half the rate, which nobody said.
    """
    made: list[Windows] = []
    for i, recording in enumerate(recordings):
        stretches = list(_stretches(recording, cut, how.interpolate))
        dropped.add(Why.MISSING, person, len(recording) - sum(map(len, stretches)))
        lost = dropped.counts.get(Why.MISSING, {}).get(person, 0)
        check_upsampling(stretches, cut.rate, cut.length, cut.asked, lost)
        for stretch in stretches:
            t, x, y = at_rate(stretch, cut.rate)
            at, begins = _starts(t, cut, aligned)
            rows = len(stretch)
            if not len(at):
                dropped.add(Why.LEFT_OVER, person, rows)
                continue
            dropped.resampled.add(person, stretch.times, t, cut.rate)
            rest = len(t) - (at[-1] + cut.length - at[0])
            dropped.add(Why.LEFT_OVER, person, round(rest * rows / len(t)))
            label, none, mixed = _labels(y, at, cut, how)
            dropped.add(Why.UNLABELLED, person, 0 if how.unlabelled else int(none.sum()))
            dropped.add(Why.MIXED, person, int(mixed.sum()))
            kept = ~mixed if how.unlabelled else ~none & ~mixed
            view = sliding_window_view(x, cut.length, axis=0)
            own = np.ascontiguousarray(view[at[kept]], np.float32)
            made.append(Windows(own, label[kept], begins[kept], np.full(len(own), i, np.int64)))
    if not made:
        features = recordings[0].x.shape[1] if recordings else 0
        nothing = np.zeros((0, features, cut.length), np.float32)
        y = np.zeros(0, np.int64 if how.values is None else np.float64)
        return Windows(nothing, y, np.zeros(0), np.zeros(0, np.int64))
    keys = [key.name for key in fields(Windows)]
    joined = Windows(*(np.concatenate([getattr(m, k) for m in made]) for k in keys))
    if aligned is None:
        return joined
    order = np.argsort(joined.t, kind="stable")
    return Windows(*(getattr(joined, key)[order] for key in keys))


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


def _labels(
    y: NDArray[np.int64], at: NDArray[np.int64], cut: Cut, how: Kept
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return windows' labels or values, and whether each has none, and several."""
    if how.values is not None:
        mean = mean_values(how.values[y], at, cut.length, cut.purity)
        return mean, np.isnan(mean), np.zeros(len(mean), np.bool_)
    label, share = majority(y, at, cut.length)
    return label, label < 0, (share < cut.purity) & (label >= 0)


def mean_values(values: Array, starts: NDArray[np.int64], length: int, purity: float) -> Array:
    """Return each window's mean of its rows' values, NaN where too small a share has one.

    `values`: float64 [rows], NaN where there is none.
    """
    there = ~np.isnan(values)
    # Differences to one of them: sums of large values would lose digits.
    base = values[there][0] if there.any() else 0.0
    sums = np.concatenate(([0.0], np.cumsum(np.where(there, values - base, 0.0))))
    counts = np.concatenate(([0], np.cumsum(there)))
    n = counts[starts + length] - counts[starts]
    mean = base + (sums[starts + length] - sums[starts]) / np.maximum(n, 1)
    ends = (values[there].min(), values[there].max()) if there.any() else (0.0, 0.0)
    enough = (n > 0) & (n >= purity * length)
    means: Array = np.where(enough, np.clip(mean, *ends), np.nan)
    return means


def _stretches(recording: Rows, cut: Cut, interpolate: bool) -> Iterator[Rows]:
    """Yield a recording's rows between its pauses, without NaN."""
    if len(recording) < 2:
        yield recording
        return
    gap = (
        cut.gap_s
        if cut.gap_s is not None
        else GAP_STEPS * float(np.median(np.diff(recording.times)))
    )
    if interpolate:
        recording = _filled(recording, gap)
    breaks = np.flatnonzero(np.diff(recording.times) > gap) + 1
    for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(recording)], strict=True):
        if end > begin:
            yield recording.part(slice(begin, end))


def _filled(recording: Rows, gap: float) -> Rows:
    """Return the rows with NaN interpolated in time, without those in the middle of a gap."""
    x = recording.x.copy()
    lost = np.zeros(len(recording), np.bool_)
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
        wide = recording.times[there[after]] - recording.times[there[after - 1]] > gap
        lost[holes[wide]] = True
        column[holes] = np.interp(recording.times[holes], recording.times[there], column[there])
    own = replace(recording, x=x)
    return own.part(~lost) if lost.any() else own
