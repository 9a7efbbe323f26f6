"""Columns that rise as a time or a row number does: no features, unless somebody says so."""

import shlex
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.source import Rows, Source

#: Numbers that are a date since 1970 in some unit: from 2001 in s to 2033 in ns.
_SINCE_1970 = (1e9, 2e18)
#: Shares of steps: so many rise, and so many are about as long as the median; so few fall.
_RISE, _EVEN, _FALL = 0.9, 0.9, 0.005
#: A step is about as long as another up to this factor.
_ABOUT = 2.0
#: Fewer steps show nothing.
_FEWEST = 10
#: A message lists no more columns.
_LISTED = 12


def rising(
    columns: Mapping[str, NDArray[np.float64]], people: Sequence[str | None]
) -> tuple[str, ...]:
    """Return the columns that rise as a time or a row number does, in the first rows.

    Parameters
    ----------
    columns : float64 [n] by name, NaN where there is no number.
    people : whose each row is, [n].
    """
    codes = {person: code for code, person in enumerate(dict.fromkeys(people))}
    who = np.array([codes[person] for person in people], np.int64)
    own = np.argsort(who, kind="stable")
    # Each person's rows one behind the other, or all as they stand: a row number counts everybody.
    orders = [(own, who[own]), (np.arange(len(who)), np.zeros(len(who), np.int64))]
    return tuple(
        name
        for name, column in columns.items()
        if any(_rises(column[order], whose) for order, whose in orders)
    )


def _rises(values: NDArray[np.float64], who: NDArray[np.int64]) -> bool:
    there = np.isfinite(values)
    values, who = values[there], who[there]
    steps = np.diff(values)[np.diff(who) == 0]
    up = steps[steps > 0]
    if not len(up) or np.mean(steps < 0) > _FALL:
        return False
    least, most = _SINCE_1970
    if (values >= least).all() and (values <= most).all():
        return True
    middle = float(np.median(up))
    even = (up > middle / _ABOUT) & (up < middle * _ABOUT)
    return (
        len(steps) >= _FEWEST
        and len(up) >= _RISE * len(steps)
        and int(even.sum()) >= _EVEN * len(up)
    )


class RisingFeatures:
    """Holds what rises in the first rows against everybody's rows.

    `source`: its `rising` are looked at.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = [source.features.index(name) for name in source.rising]
        self._falls, self._steps = np.zeros((2, len(self._at)), np.int64)

    def add(self, rows: Rows) -> None:
        """Count the steps of one person's rows; a step between two files is none."""
        for i, at in enumerate(self._at):
            there = np.isfinite(rows.x[:, at])
            within = np.diff(rows.file[there]) == 0
            self._steps[i] += int(within.sum())
            self._falls[i] += int(((np.diff(rows.x[there, at]) < 0) & within).sum())

    def check(self, where: str) -> None:
        """Refuse features that rise in everybody's rows, too.

        Raises DataError; it names them, and the options that say what they are.
        """
        rise = [
            name
            for name, falls, steps in zip(
                self._source.rising, self._falls, self._steps, strict=True
            )
            if falls <= _FALL * steps
        ]
        if not rise:
            return
        them, is_, it = f"column {rise[0]!r}, which rises", "it is", "it"
        if len(rise) > 1:
            them, is_, it = f"columns {', '.join(map(repr, rise))}, which rise", "one is", "them"
        rest = [name for name in self._source.features if name not in rise]
        drop = f"{features_option(rest)} leaves {it} out, " if rest else ""
        raise DataError(
            f"{where}: got {them} from row to row as a time or a row number does, expected "
            f"features. If {is_} the time, say {spelt('time', shlex.quote(rise[0]))}. If not, "
            f"name the features: {drop}{features_option(self._source.features, rise)} keeps {it}"
        )


def features_option(names: Sequence[str], first: Sequence[str] = ()) -> str:
    """Return the option that names these features, those of `first` before the others."""
    ordered = [*first, *(name for name in names if name not in first)]
    shown = ",".join(ordered[:_LISTED]) + (",..." if len(ordered) > _LISTED else "")
    return spelt("features", shlex.quote(shown))
