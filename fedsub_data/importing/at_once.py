"""Recordings of one person whose times overlap: made at the same time, or each from 0.

Two devices that record at once, such as a watch on each wrist, see the same moments. Put one behind
the other, one is trained on what the other is tested on. So they keep their own time. Times that
begin at 0 in each recording do not say when it was made: such recordings lie one behind the other,
unless their classes or their files' names show that they were made at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedsub_core.errors import listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import A_DATE, DEVICES, check_sensors, parted
from fedsub_data.importing.grouping import Placed
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.source import Rows, Source, file_of

#: Share of moments at which recordings that were made at once may differ in class.
_DIFFER = 0.02
#: So many moments are looked at.
_MOMENTS = 2000
#: So many people are named; the others are counted.
_NAMED = 3


@dataclass
class _Session:
    """Recordings that were made at once, as they came, and the seconds they are moved back by."""

    recordings: list[Rows]
    shift: float


@dataclass
class AtOnce:
    """Placement of everybody's recordings in time, and the notes on it.

    `window_s`: length of a window, s.
    """

    source: Source
    options: ImportOptions
    window_s: float
    _together: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _behind: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def placed(self, recordings: Sequence[Rows]) -> Placed:
        """Return one person's recordings, placed in time.

        Recordings that each begin at 0 are put one behind the other. Windows align where some
        recordings were made at once: those of one moment then begin at one time. Else None.

        `recordings`: in the order of their time, which is in seconds.
        """
        files = list(dict.fromkeys(int(recording.file[0]) for recording in recordings))
        if len(files) > 1:
            names = [file_of(self.source, file) for file in files]
            check_sensors(recordings[0].person, names, self.options)
        sessions, made, at_once = list[_Session](), list[Rows](), set[int]()
        numbers, begun = list[int](), list[float]()
        end = -np.inf
        for recording in recordings:
            begins, ends = _span(recording)
            session = next((s for s in sessions if self._belongs(recording, s)), None)
            if session is None:
                # A window behind the others: no window of it lies beside another's in time, which
                # a split would hold apart.
                session = _Session([], 0.0 if begins >= end else end + self.window_s - begins)
                sessions.append(session)
                if session.shift:
                    begun.append(begins + session.shift)
                    self._behind[recording.person] = tuple(files)
            for other in session.recordings:
                if _overlap(recording, other) >= self.window_s:
                    at_once |= {int(recording.file[0]), int(other.file[0])}
            session.recordings.append(recording)
            numbers.append(next(i for i, one in enumerate(sessions) if one is session))
            made.append(
                recording.at(recording.times + session.shift) if session.shift else recording
            )
            end = max(end, ends + session.shift)
        if at_once:
            self._together[made[0].person] = tuple(sorted(at_once))
        aligned = _span(made[0])[0] if at_once else None
        return Placed(made, aligned, numbers, begun)

    def notes(self) -> tuple[str, ...]:
        """Return sentences on recordings that overlap in time, and on how they were placed."""
        notes = []
        if self._together:
            notes.append(
                f"Recorded at the same time: {self._named(self._together)}. Each recording keeps "
                "its own time; windows of one moment are on one side of every split. If they were "
                f"made one after the other, give {spelt('overlapping', 'behind')}."
            )
        if self._behind and self.options.overlapping == AUTO:
            notes.append(
                "Put one behind the other, as each begins at 0 or their classes differ: "
                f"{self._named(self._behind)}. If they were made at the same time, give "
                f"{spelt('overlapping', 'together')}."
            )
        return tuple(notes)

    def _belongs(self, recording: Rows, session: _Session) -> bool:
        """Return whether a recording was made at once with those of a session."""
        others = [other for other in session.recordings if _overlap(recording, other) > 0]
        answers = [self._at_once(recording, other) for other in others]
        return True in answers and False not in answers

    def _at_once(self, recording: Rows, other: Rows) -> bool | None:
        """Return whether two recordings were made at once; None where nothing shows it."""
        if self.options.overlapping != AUTO:
            return self.options.overlapping == "together"
        begins = _span(recording)[0], _span(other)[0]
        if min(begins) > A_DATE:
            return True
        at_zero = max(map(abs, begins)) < self.window_s
        if at_zero and recording.file[0] == other.file[0]:
            return False  # what stands behind it in one file was recorded after it
        classes = _alike(recording, other, self.window_s)
        if classes is not None or not at_zero:
            return classes is not False
        own, others = (
            parted(file_of(self.source, int(r.file[0])), DEVICES) for r in (recording, other)
        )
        if not own[0] or not others[0]:
            return None
        return own[0] != others[0] and own[1] == others[1]

    def _named(self, people: Mapping[str, tuple[int, ...]]) -> str:
        """Return people with the files of their recordings; of many the first."""
        shown = []
        for person, files in people.items():
            names = [Path(file_of(self.source, file)).name for file in files]
            shown.append(f"{person!r} ({listed(names, _NAMED)})")
        return f"recordings of {listed(shown, _NAMED)}"


def _span(recording: Rows) -> tuple[float, float]:
    return float(recording.times[0]), float(recording.times[-1])


def _overlap(recording: Rows, other: Rows) -> float:
    """Return the time for which two recordings overlap, s; below 0 where they do not."""
    (begins, ends), (first, last) = _span(recording), _span(other)
    return min(ends, last) - max(begins, first)


def _alike(recording: Rows, other: Rows, window_s: float) -> bool | None:
    """Return whether classes change at about the same moments; None where there is one class.

    Clocks that were started by hand differ by half a window at each change.
    """
    begins, lasts = max(_span(recording)[0], _span(other)[0]), _overlap(recording, other)
    moments = np.linspace(begins, begins + lasts, _MOMENTS)
    own = recording.y[np.clip(np.searchsorted(recording.times, moments), 0, len(recording) - 1)]
    others = other.y[np.clip(np.searchsorted(other.times, moments), 0, len(other) - 1)]
    changes = np.count_nonzero(np.diff(own))
    if np.mean(own != others) > max(_DIFFER, changes * window_s / 2 / lasts):
        return False
    return True if changes else None
