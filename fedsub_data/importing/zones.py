"""Local times as seconds since 1970: zones, clocks that are put back or forward, and midnight.

Rows come with the time that a clock on a wall showed, as if in UTC. In autumn a zone has one hour
twice: which of the two is meant shows where the clock falls back, or where rows follow those before
or behind that hour without a pause. In spring it lacks an hour.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows
from fedsub_data.importing.windowing import GAP_STEPS

Seconds = NDArray[np.float64]
Mask = NDArray[np.bool_]
DAY = 86400.0
#: Text behind a time of the day that names its zone; for SQL, too.
NAMED = (
    r":[0-9]{2}([.,][0-9]+)?\s*"
    r"([Zz]|UTC|GMT|[+-][0-9]{2}(:?[0-9]{2})?|[A-Za-z]+/[A-Za-z_/]+)\s*$"
)
#: Clocks change at a multiple of so many seconds.
_CHANGE = 900.0
_SINCE = datetime(1970, 1, 1)
#: A clock that runs back by less is not put back, s. Steps that are no pause may be so long, s.
_FALL, _STEP = 60.0, 1.0


def offsets(t: Seconds, zone: ZoneInfo) -> Seconds:
    """Return a zone's offset from UTC at seconds since 1970, s, [n]."""
    bins, at = np.unique(np.floor(t / _CHANGE), return_inverse=True)
    moments = (_SINCE.replace(tzinfo=UTC) + timedelta(seconds=b * _CHANGE) for b in bins.tolist())
    ahead = [_seconds(moment.astimezone(zone).utcoffset()) for moment in moments]
    return np.array(ahead, np.float64)[at]


def _on_the_wall(t: Seconds, zone: ZoneInfo) -> tuple[Seconds, Seconds]:
    """Return the offsets of times on a clock, at the first and the second time it shows them."""
    bins, at = np.unique(np.floor(t / _CHANGE), return_inverse=True)
    shown = [_SINCE + timedelta(seconds=b * _CHANGE) for b in bins.tolist()]
    first, second = (
        np.array([_seconds(zone.utcoffset(one.replace(fold=fold))) for one in shown], np.float64)
        for fold in (0, 1)
    )
    return first[at], second[at]


def _seconds(ahead: timedelta | None) -> float:
    assert ahead is not None
    return ahead.total_seconds()


@dataclass(frozen=True)
class WallClock:
    """The reading of times that a clock on a wall showed.

    Parameters
    ----------
    options : ``timezone`` and ``doubled_hour`` count.
    of_day : whether times are those of a day, without a date.
    place : the place of a row's time, and the time, in words, by file and row.
    """

    options: ImportOptions
    of_day: bool
    place: Callable[[int, int], str]

    def read(self, rows: Rows, named: Mask) -> Rows:
        """Return a person's rows at seconds since 1970, or since the first midnight.

        Parameters
        ----------
        rows : at the seconds that the clock showed, each file's in its order.
        named : bool [n], whose times name a zone: they are seconds since 1970 already.

        Raises DataError for an hour that the zone does not have, and one that it has twice, where
        nothing shows which is meant.
        """
        if not self.of_day and self.options.zone is None:
            return rows
        t = rows.times.copy()
        begins = np.flatnonzero(np.diff(rows.file, prepend=-1, append=-1))
        for begin, end in itertools.pairwise(begins.tolist()):
            at = begin + np.flatnonzero(np.isfinite(t[begin:end]))
            if self.of_day:
                falls = np.diff(t[at], prepend=t[at[:1]]) < -DAY / 2
                t[at] += DAY * np.cumsum(falls)
            else:
                t[at] -= self._ahead(rows, at, named[at])
        return rows.at(t)

    def _ahead(self, rows: Rows, at: NDArray[np.int64], named: Mask) -> Seconds:
        """Return the clock's offset from UTC at some rows of one file, s."""
        assert self.options.zone is not None
        t = rows.times[at]
        first, second = _on_the_wall(t, self.options.zone)
        if (lacking := (first < second) & ~named).any():
            row = at[int(lacking.argmax())]
            raise DataError(
                f"{self.place(int(rows.file[row]), int(rows.row[row]))}, person {rows.person!r}: "
                f"{self.options.timezone} does not have this time, as clocks were put forward; "
                f"expected times of that zone. Check {spelt('timezone')}"
            )
        ahead = np.where(named, 0.0, first)
        doubled = (first > second) & ~named
        edges = np.flatnonzero(np.diff(doubled, prepend=False, append=False))
        steps = np.diff(t)
        usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            later = self._second(t, begin, end, usual)
            if later is None:
                row = at[begin]
                raise DataError(
                    f"{self.place(int(rows.file[row]), int(rows.row[row]))}, person "
                    f"{rows.person!r}: {self.options.timezone} had this time twice, as clocks were "
                    "put back, and no row shows which is meant; expected to be told. Say "
                    f"{spelt('doubled-hour', 'first')} or second, or write offsets into the file, "
                    "such as 02:30:00+02:00"
                )
            ahead[begin + later : end] = second[begin + later : end]
        return ahead

    def _second(self, t: Seconds, begin: int, end: int, usual: float) -> int | None:
        """Return the first of the rows ``[begin, end)`` that is of the hour's second time.

        It is counted from `begin`. None where that cannot be known.
        """
        falls = np.flatnonzero(np.diff(t[begin:end]) < -max(_FALL, GAP_STEPS * usual))
        if len(falls) == 1:
            return int(falls[0]) + 1
        most = max(_STEP, GAP_STEPS * usual)
        follows = begin > 0 and 0 <= t[begin] - t[begin - 1] <= most
        leads = end < len(t) and 0 <= t[end] - t[end - 1] <= most
        if not len(falls) and follows is not leads:
            return end - begin if follows else 0
        return {"first": end - begin, "second": 0}.get(self.options.doubled_hour)


def check_named(
    named: int, others: int, first: Callable[[], str], options: ImportOptions
) -> list[str]:
    """Refuse times of which some name a zone; return a sentence where the option changes nothing.

    Parameters
    ----------
    named, others : how many dates name a zone, and how many do not.
    first : the place of the first of those that do not, and its time.

    Raises DataError where both are there, and nothing says the zone of those that name none.
    """
    if named and others and not options.timezone:
        raise DataError(
            f"{first()}: this time and {others - 1:,} more name no zone, {named:,} do; expected to "
            f"be told the zone of those that name none. Say {spelt('timezone', 'Europe/Berlin')}, "
            f"or {spelt('timezone', 'UTC')}"
        )
    if options.timezone and not others:
        zone = spelt("timezone", options.timezone)
        return [f"No time is read by {zone}: each is a number or names its own zone."]
    return []
