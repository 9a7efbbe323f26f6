"""Columns that are empty in most rows, as where a slow sensor is merged with a fast one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.resampled import percent
from fedsub_data.importing.rising import features_option
from fedsub_data.importing.source import Rows, Source
from fedsub_data.importing.windowing import GAP_STEPS

#: A column is sparse that is empty in more than this share of rows.
_MOST = 0.5
#: A sentence names no more people.
_LISTED = 5


class SparseColumns:
    """Counts of each feature the rows without a value.

    Parameters
    ----------
    source : its features are looked at.
    options : whether features were named, and how holes are filled.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._options = source, options
        # Of a table: what an array holds has no names by which an option leaves it out.
        self._guessed = f"Guessed: --features {','.join(source.features)}." in source.notes
        self._named = bool(options.named_features)
        self._rows: dict[str, int] = {}
        self._empty: dict[str, NDArray[np.int64]] = {}
        self._apart: dict[int, list[float]] = {}

    def add(self, rows: Rows) -> None:
        """Count one person's."""
        none = np.isnan(rows.x if rows.x.ndim == 2 else rows.x.sum(axis=2))
        self._rows[rows.person] = len(rows)
        self._empty[rows.person] = none.sum(axis=0)
        for i in np.flatnonzero(self._empty[rows.person] > _MOST * len(rows)).tolist():
            t = (rows.row if rows.t is None else rows.t)[~none[:, i]]
            steps = np.diff(t)
            if (steps > 0).any():
                self._apart.setdefault(i, []).append(float(np.median(steps[steps > 0])))

    def check(self, tick: float, step: float | None) -> list[str]:
        """Return a sentence on each column that is empty in most rows, of all people or of some.

        Parameters
        ----------
        tick : the unit of time, s.
        step : from one row to the next, s; None where rows are no signal.

        Raises
        ------
        DataError
            Where most rows would be dropped for a column of a table that was guessed.
        """
        if self._options.missing == "stop":
            return []
        rows, notes = sum(self._rows.values()), []
        empty = np.sum(list(self._empty.values()), axis=0)
        for i, name in enumerate(self._source.features):
            if empty[i] <= _MOST * rows:
                some = [one for one, n in self._rows.items() if self._empty[one][i] > _MOST * n]
                if some:
                    more = f" and {len(some) - _LISTED} more" if len(some) > _LISTED else ""
                    whose = ", ".join(some[:_LISTED]) + more
                    notes.append(f"Column {name!r} is empty in most rows of {whose}.")
                continue
            said = f"olumn {name!r} is empty in {percent(empty[i] / rows)} of {rows:,} rows"
            unit = tick if self._source.time else step or 0.0
            hole = float(np.median(self._apart[i])) * unit if i in self._apart else None
            gap = self._options.gap_s or GAP_STEPS * (step or 0)
            fills = self._options.missing == "interpolate"
            if fills and hole is not None and hole <= gap:
                notes.append(f"C{said}; they are interpolated.")
                continue
            ways = []
            rest = [one for one in self._source.features if one != name]
            if rest and (self._guessed or self._named):
                ways.append(f"{features_option(rest)} leaves it out")
            if step and hole is not None:
                asked = "" if fills else "--missing interpolate "
                longer = f"--gap {1.5 * hole:.3g}s " if hole > gap else ""
                ways.append(f"{asked}{longer}fills it between its values, {hole:.3g} s apart")
            if self._guessed:
                ways.append(f"{features_option(self._source.features, [name])} drops them")
                raise DataError(f"c{said}, expected values in most. {', '.join(ways)}")
            notes.append(". ".join((f"C{said}, and these are dropped", *ways)) + ".")
        return notes
