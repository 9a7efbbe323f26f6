"""Numbers of the recording, day or session that a split keeps together (``--split-by``)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import A_DATE
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows
from fedsub_data.importing.time_options import seconds
from fedsub_data.importing.zones import DAY, offsets

Numbers = NDArray[np.int64]
Seconds = NDArray[np.float64]
#: So many people are named; the others are counted.
_NAMED = 5


@dataclass(frozen=True)
class Placed:
    """One person's recordings in time.

    Parameters
    ----------
    recordings : in the order of their time, which is in seconds.
    aligned : the time by which windows align, s; None: each stretch by itself.
    sessions : of each recording the number of those that were made at once with it.
    begun : times from which on nothing is known of the time before, s: those of recordings that
        were put behind others.
    """

    recordings: Sequence[Rows]
    aligned: float | None = None
    sessions: Sequence[int] = ()
    begun: Sequence[float] = ()


@dataclass
class Grouping:
    """Numbering of everybody's groups, and the notes on it.

    `options`: ``split_by``, ``session_gap`` and ``timezone`` count.
    """

    options: ImportOptions
    _counts: dict[str, int] = field(default_factory=dict)

    def of_windows(self, t: Seconds, recording: Numbers, placed: Placed) -> Numbers | None:
        """Return the group of each window, int64 [n]; None where windows alone are kept whole.

        Parameters
        ----------
        t : when windows begin, s, [n].
        recording : of which of the placed recordings each is, [n].
        """
        if not len(t) or self.options.groups is None:
            return None
        person = placed.recordings[0].person
        if self.options.split_by == "recording":
            return self._numbered(person, np.array(placed.sessions)[recording])
        rows = np.concatenate([own.times for own in placed.recordings])
        return self._by_time(person, t, rows, placed.begun)

    def of_rows(self, rows: Rows) -> Numbers | None:
        """Return the group of each row that is a sample, int64 [n]; their times are in seconds.

        Raises DataError where they have no time, and it is asked for.
        """
        if not len(rows) or self.options.groups is None:
            return None
        if self.options.split_by == "recording":
            return self._numbered(rows.person, rows.file)
        if rows.t is None:
            raise DataError(
                f"split-by: got {self.options.split_by} for rows without times, expected a column "
                f"of time. Name it with {spelt('time')}, or say {spelt('split-by', 'recording')}"
            )
        return self._by_time(rows.person, rows.t, rows.t, ())

    def _by_time(self, person: str, t: Seconds, rows: Seconds, begun: Sequence[float]) -> Numbers:
        """Return days or sessions of samples at `t`; `rows` are the times of all rows, s."""
        if self.options.split_by == "day":
            if (first := float(t.min())) <= A_DATE:
                raise DataError(
                    f"split-by: got day for person {person!r}, whose times begin at {first:.6g} s "
                    "and do not say the day; expected dates, or seconds since 1970. Say "
                    f"{spelt('split-by', 'recording')} or session"
                )
            local = t + offsets(t, self.options.zone) if self.options.zone else t
            return self._numbered(person, np.floor(local / DAY))
        ordered = np.sort(rows)
        steps = np.diff(ordered)
        gap = seconds("session-gap", self.options.session_gap) or 0.0
        begins = np.concatenate((ordered[1:][steps > gap], np.array(begun, np.float64)))
        # Windows that align with others may begin half a step before their first row.
        slack = float(np.median(steps)) / 2 if len(steps) else 0.0
        return self._numbered(person, np.searchsorted(np.unique(begins), t + slack, side="right"))

    def _numbered(self, person: str, group: NDArray[np.generic]) -> Numbers:
        found, numbers = np.unique(group, return_inverse=True)
        self._counts[person] = len(found)
        return np.asarray(numbers, np.int64)

    def notes(self) -> tuple[str, ...]:
        """Return sentences on how many groups people have, and who has one alone."""
        if not self._counts:
            return ()
        kind, counts = self.options.split_by, sorted(self._counts.values())
        zone = f" in {self.options.timezone or 'UTC'}" if kind == "day" else ""
        many = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
        notes = [
            f"A split keeps each {kind}{zone} whole: people have {many}. A run tests the latest of "
            "them, as many as the tested share needs."
        ]
        if alone := [person for person, count in self._counts.items() if count == 1]:
            notes.append(
                f"One {kind} alone: {listed(map(repr, alone), _NAMED)}. A run splits it in time, "
                "as without groups."
            )
        return tuple(notes)
