"""One person's recording in WESAD, its labelled windows, and the features of each window.

A window uses its own samples only: signals are filtered inside the window, never over the whole
recording, so no sample of a test window has touched a training window through a filter.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_data.preparing.preparation import Counts, refused
from fedsub_data.preparing.windows import Array, stretches, window_starts

#: The study protocol's labels that are classes, in the order of the federation's labels.
CLASSES = {1: "Baseline", 2: "Stress", 3: "Amusement", 4: "Meditation"}
#: The labels that are none, and what WESAD's readme calls them.
DROPPED = {0: "transient", 5: "to be ignored", 6: "to be ignored", 7: "to be ignored"}

#: What x, float32, can hold.
_LARGEST = float(np.finfo(np.float32).max)


class Unusable(Exception):
    """A window without usable features; the text is the reason under which it is counted."""


@dataclass(frozen=True, eq=False)
class Signal:
    """A signal and its rate.

    Parameters
    ----------
    values : float32 [n] or [n, axes]
    rate_hz : its samples a second.
    """

    values: Array
    rate_hz: float

    def between(self, start_s: float, length_s: float) -> Array:
        """Return the samples, as float64, whose time lies in ``[start_s, start_s + length_s)``."""
        tiny = 1e-6  # start_s * rate_hz can miss a whole number by a rounding error
        first = math.ceil(start_s * self.rate_hz - tiny)
        count = math.floor(length_s * self.rate_hz + tiny)
        samples: Array = self.values[first : first + count].astype(np.float64)
        return samples


@dataclass(frozen=True, eq=False)
class Recording:
    """A person's signals and labels, which start together and last equally long.

    Parameters
    ----------
    where : the file, for messages.
    signals : by their name in the official files.
    label : integers [n], the protocol's labels 0 to 7.
    label_rate_hz : labels a second, 700 in the official files.
    """

    where: str
    signals: Mapping[str, Signal]
    label: Array
    label_rate_hz: float


@dataclass(frozen=True, eq=False)
class Windows:
    """A person's windows: x float32 [n, F], y int64 [n], t float64 [n] in seconds, and counts."""

    x: Array
    y: Array
    t: Array
    counts: Counts


#: Takes signals cut to one window, returns its features by name, or raises Unusable.
Features = Callable[[Mapping[str, Signal]], dict[str, float]]


def featured_windows(
    recording: Recording, features: Features, names: tuple[str, ...], window_s: float, step_s: float
) -> Windows:
    """Return the features of every window that lies inside one stretch of one class.

    A window in which a feature cannot be computed or is not finite is dropped and counted.

    Raises DataError where a label is none of 0 to 7, or where no window is left.
    """
    counts = _counted_rows(recording)
    rate = recording.label_rate_hz
    window, step = round(window_s * rate), max(1, round(step_s * rate))
    classes = list(CLASSES)
    x, y, t = [], [], []
    counts.add("windows kept", 0)
    for start, end in stretches(recording.label):
        label = int(recording.label[start])
        for row in window_starts(start, end, window, step) if label in CLASSES else ():
            try:
                x.append(_row(recording, features, names, row / rate, window / rate))
            except Unusable as reason:
                counts.add(f"windows dropped: {reason}")
                continue
            y.append(classes.index(label))
            t.append(row / rate)
    counts.add("windows kept", len(x))
    if not x:
        got = ", ".join(f"{count} {what}" for what, count in counts.items())
        expected = "a window of some class in which every feature can be computed"
        raise refused(recording.where, f"no usable window ({got})", expected)
    return Windows(np.asarray(x, np.float32), np.asarray(y, np.int64), np.asarray(t), counts)


def _counted_rows(recording: Recording) -> Counts:
    wrong = np.flatnonzero((recording.label < 0) | (recording.label > 7))
    if len(wrong):
        got = f"label {recording.label[wrong[0]]} at row {wrong[0]}"
        raise refused(recording.where, got, "the protocol's labels 0 to 7")
    counts = Counts({"rows read": len(recording.label)})
    for label, meaning in DROPPED.items():
        rows = int((recording.label == label).sum())
        counts.add(f"rows dropped: label {label} ({meaning})", rows)
    return counts


def _row(
    recording: Recording,
    features: Features,
    names: tuple[str, ...],
    start_s: float,
    length_s: float,
) -> list[float]:
    cut = {
        name: Signal(signal.between(start_s, length_s), signal.rate_hz)
        for name, signal in recording.signals.items()
    }
    # NeuroKit2 warns about every short window; what matters is checked below.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            values = features(cut)
        except Unusable:
            raise
        except Exception as error:  # NeuroKit2 raises nearly anything where it finds nothing
            raise Unusable(f"NeuroKit2 failed ({type(error).__name__})") from error
    row = [float(values[name]) for name in names]
    for name, value in zip(names, row, strict=True):
        if not abs(value) <= _LARGEST:
            raise Unusable(f"{name} is not finite")
    return row
