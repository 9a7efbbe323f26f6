"""Files whose newest row stands first: time runs backwards from row to row."""

from __future__ import annotations

import numpy as np

from fedsub_core.errors import DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

#: In such a file, that share of the steps in time at least runs backwards.
_MOST = 0.9
#: Fewer steps show nothing.
_FEWEST = 2


class NewestFirst:
    """Finds files that are written from the newest row to the oldest.

    Parameters
    ----------
    source : its time is looked at.
    options : with ``backwards = sort`` the order of rows is no matter.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._sorted = source, options.backwards == "sort"
        self._found: list[str] = []

    def add(self, rows: Rows) -> None:
        """Look at one person's rows, file by file."""
        if rows.t is None or self._sorted:
            return
        for file in np.unique(rows.file).tolist():
            t = rows.t[rows.file == file]
            falls, rises = np.count_nonzero(t[1:] < t[:-1]), np.count_nonzero(t[1:] > t[:-1])
            if falls >= max(_FEWEST, _MOST * (falls + rises)):
                row = int(rows.row[rows.file == file][0])
                place = self._source.place(int(file), row, self._source.time)
                self._found.append(
                    f"{place}, person {rows.person!r}: got time that runs backwards in {falls:,} "
                    f"of {falls + rises:,} steps: the newest row is the first"
                )

    def check(self) -> None:
        """Refuse such files.

        Raises
        ------
        DataError
            It names the first, and the option.
        """
        if self._found:
            more = f" ({len(self._found)} recordings are so)" if len(self._found) > 1 else ""
            raise DataError(
                f"{self._found[0]}{more}; expected the oldest first. --backwards sort puts rows in "
                "order of time"
            )
