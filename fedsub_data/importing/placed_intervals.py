"""Intervals placed in the time of recordings, without overlaps; those that disagree are refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import A_DATE
from fedsub_data.importing.interval_files import Interval, IntervalFile
from fedsub_data.importing.interval_owners import Recording, owners
from fedsub_data.importing.options import ImportOptions

#: Ends that lie behind the next start by less are rounded, s.
_ROUNDED = 1e-6
#: The class of marks that is none.
_NONE = "-"


@dataclass(frozen=True)
class Placed:
    """An interval in a recording's time, s; `where` is its file and line."""

    start: float
    end: float
    label: str
    where: str


def placed(
    file: IntervalFile, recordings: Sequence[Recording], options: ImportOptions, tick: float
) -> tuple[dict[tuple[str, int], list[Placed]], list[str], list[Interval]]:
    """Return intervals by person and file, sentences on guesses, and intervals of nobody.

    Parameters
    ----------
    recordings : those of which the file may speak.
    tick : the unit of the recordings' times, s.

    Raises DataError where marks do not fit ``marks``, or dates are held against times from 0.
    """
    by: dict[tuple[str, int], list[Interval]] = {}
    nobody = []
    for interval in file.intervals:
        whose = owners(interval, recordings)
        nobody += [] if whose else [interval]
        for recording in whose:
            by.setdefault((recording.person, recording.file), []).append(interval)
    notes = list[str]()
    unit = file.unit
    if unit is None:
        unit = _unit(file, recordings, tick)
        if unit == 1:
            notes.append(f"Guessed: {spelt('intervals-unit', 's')}.")
        else:
            notes.append(f"Guessed: times of {file.path.name} are in the unit of the recordings.")
    made: dict[tuple[str, int], list[Placed]] = {}
    moved = []
    spans = {(each.person, each.file): each for each in recordings}
    for key, own in by.items():
        in_seconds = [
            Placed(each.start * unit, each.end * unit, each.label, each.where)
            for each in _ended(own, file, options)
        ]
        start = _start(in_seconds, spans[key], file)
        if start:
            moved.append(spans[key].path.name)
        made[key] = [
            replace(each, start=each.start + start, end=each.end + start) for each in in_seconds
        ]
    if moved:
        notes.append(
            f"Times of {file.path.name} count from the first row of each recording: "
            f"{listed(moved, 3)}."
        )
    return made, notes, nobody


def _unit(file: IntervalFile, recordings: Sequence[Recording], tick: float) -> float:
    """Return 1 s where all times lie within a recording then, else the recordings' unit."""
    ends = [t for each in file.intervals for t in (each.start, each.end) if np.isfinite(t)]
    longest = max((each.last - each.first for each in recordings), default=0.0)
    latest = max((each.last for each in recordings if each.last < A_DATE), default=0.0)
    return 1.0 if max(ends, default=0.0) <= max(longest, latest) + 1 else tick


def _start(own: Sequence[Placed], recording: Recording, file: IntervalFile) -> float:
    """Return the seconds to add to intervals: the recording's first time, or 0."""
    if file.dated:
        if recording.last < A_DATE:
            raise DataError(
                f"{own[0].where if own else file.path}: got dates, and {recording.path} has times "
                f"from {recording.first:g} to {recording.last:g} s; expected both since 1970, or "
                "both from a recording's start"
            )
        return 0.0
    if recording.first > A_DATE:
        return recording.first
    shared = [
        sum(e.start + d < recording.last and e.end + d > recording.first for e in own)
        for d in (0.0, recording.first)
    ]
    return recording.first if shared[1] > shared[0] else 0.0


def _ended(own: Sequence[Interval], file: IntervalFile, options: ImportOptions) -> list[Interval]:
    """Return one recording's intervals of a class, where marks last up to the next mark."""
    if all(np.isfinite(each.end) for each in own):
        return [each for each in own if each.label]
    ordered = sorted(own, key=lambda each: each.start)
    classes: Sequence[str] = [each.label for each in ordered]
    if file.bare:
        classes = [*options.mark_classes, _NONE]
        if not options.marks:
            raise DataError(
                f"{file.path}: got {len(own)} bare marks, expected their classes: "
                f"{spelt('marks')} names those of the {len(own) - 1} stretches between them, such "
                "as sit,-,walk, where - is none"
            )
        if len(classes) != len(ordered):
            raise DataError(
                f"{file.path}: got {len(ordered)} marks, expected {len(classes)}: "
                f"{spelt('marks', options.marks)} names {len(classes) - 1} stretches between them"
            )
    following = [*(each.start for each in ordered[1:]), np.inf]
    return [
        replace(each, label=name, end=each.end if np.isfinite(each.end) else following[i])
        for i, (each, name) in enumerate(zip(ordered, classes, strict=True))
        if name and not (file.bare and name == _NONE) and following[i] > each.start
    ]


def without_overlaps(own: Sequence[Placed], person: str) -> list[Placed]:
    """Return one recording's intervals in order, those of one class that overlap as one.

    Raises DataError where two of different classes overlap; it names both.
    """
    made: list[Placed] = []
    for each in sorted(own, key=lambda one: (one.start, one.end)):
        last = made[-1] if made else None
        if last is None or each.start >= last.end - _ROUNDED:
            begins = each.start if last is None else max(each.start, last.end)
            made.append(replace(each, start=begins))
        elif each.label == last.label:
            made[-1] = replace(last, end=max(last.end, each.end))
        else:
            raise DataError(
                f"person {person!r}: got {last.label!r} from {last.start:.15g} to {last.end:.15g} "
                f"s ({last.where}) and {each.label!r} from {each.start:.15g} to {each.end:.15g} s "
                f"({each.where}), which overlap; expected one class at a time. Correct one of them"
            )
    return made
