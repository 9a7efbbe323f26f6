"""Columns that are empty in most rows, as where a slow sensor is merged with a fast one."""

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.resampled import percent
from fedsub_data.importing.rising import features_option
from fedsub_data.importing.source import Rows, Source
from fedsub_data.importing.windowing import GAP_STEPS

#: A column is sparse that is empty in this share of rows or more.
_MOST = 0.5
#: A sentence names no more people.
_LISTED = 5


class SparseColumns:
    """Counts of rows without a value, by feature and person.

    Parameters
    ----------
    source : its features are looked at.
    options : whether features were named, and how holes are filled.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._options = source, options
        # Of a table: what an array holds has no names by which an option leaves it out.
        self._guessed = f"Guessed: {spelt('features', ','.join(source.features))}." in source.notes
        self._rows: dict[str, int] = {}
        self._empty: dict[str, NDArray[np.int64]] = {}
        self._apart: dict[int, list[float]] = {}

    def add(self, rows: Rows) -> None:
        """Count one person's rows."""
        self._rows[rows.person] = len(rows)
        with np.errstate(invalid="ignore", over="ignore"):  # text is infinite
            whole = not np.isnan(rows.x.sum())
        if whole:
            self._empty[rows.person] = np.zeros(rows.x.shape[1], np.int64)
            return
        none = np.isnan(rows.x if rows.x.ndim == 2 else rows.x.sum(axis=2))
        self._empty[rows.person] = none.sum(axis=0)
        for i in np.flatnonzero(self._empty[rows.person] >= _MOST * len(rows)).tolist():
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

        Raises DataError where most rows would be dropped for a column of a table that was guessed.
        """
        if self._options.missing == "stop":
            return []
        rows = sum(self._rows.values())
        empty = np.sum(list(self._empty.values()), axis=0) / max(rows, 1)
        sparse = [i for i, share in enumerate(empty) if share >= _MOST]
        unit = tick if self._source.time else step or 0.0
        holes = {i: float(np.median(self._apart[i])) * unit for i in sparse if i in self._apart}
        gap = self._options.gap_s or GAP_STEPS * (step or 0.0)
        notes = self._of_some(sparse)
        if self._options.missing == "interpolate":
            filled = [i for i in sparse if i in holes and holes[i] <= gap]
            notes += [f"{self._said(i, empty[i])}; they are interpolated." for i in filled]
            sparse = [i for i in sparse if i not in filled]
        if not sparse:
            return notes
        sentence = "; ".join(self._said(i, empty[i]) for i in sparse)
        names = [self._source.features[i] for i in sparse]
        rest = [name for name in self._source.features if name not in names]
        ways = []
        if rest and (self._guessed or self._options.named_features):
            ways.append(f"{features_option(rest)} takes the others alone")
        if step and all(i in holes for i in sparse):
            longest = max(holes[i] for i in sparse)
            asked = f"{spelt('missing', 'interpolate')} "
            asked = "" if self._options.missing == "interpolate" else asked
            longer = f"{spelt('gap', f'{1.5 * longest:.3g}s')} " if longest > gap else ""
            ways.append(f"{asked}{longer}fills the {longest:.3g} s between values")
        if self._guessed:
            ways.append(f"{features_option(self._source.features, names)} drops such rows")
            raise DataError(f"{sentence}; expected values in most. {', '.join(ways)}")
        return [*notes, ". ".join((f"{sentence}, and these are dropped", *ways)) + "."]

    def _said(self, i: int, share: float) -> str:
        rows = sum(self._rows.values())
        return f"column {self._source.features[i]!r} is empty in {percent(share)} of {rows:,} rows"

    def _of_some(self, sparse: list[int]) -> list[str]:
        """Return a sentence on each other column that is empty in most rows of some people."""
        notes = []
        for i, name in enumerate(self._source.features):
            some = [who for who, n in self._rows.items() if n and self._empty[who][i] >= _MOST * n]
            if some and i not in sparse:
                whose = listed(some, _LISTED)
                notes.append(f"column {name!r} is empty in most rows of {whose}.")
        return notes
