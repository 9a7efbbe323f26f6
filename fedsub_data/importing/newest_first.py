"""Files whose newest row stands first: time runs backwards from row to row."""

from __future__ import annotations

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

#: In such a file, that share of the steps in time at least runs backwards.
_MOST = 0.9
#: Fewer steps show nothing.
_FEWEST = 2


class NewestFirst:
    """Finder of files that are written from the newest row to the oldest.

    Parameters
    ----------
    source : its time is looked at.
    options : with ``backwards = sort`` the order of rows is no matter.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._sorted = source, options.backwards == "sort"
        self._first, self._recordings = "", 0

    def add(self, rows: Rows) -> None:
        """Look at one person's rows, file by file."""
        if rows.t is None or self._sorted:
            return
        fall = (rows.t[1:] < rows.t[:-1]) & (rows.file[1:] == rows.file[:-1])
        if np.count_nonzero(fall) < _FEWEST:
            return
        for file in np.unique(rows.file).tolist():
            own = rows.file == file
            t = rows.t[own]
            falls, rises = np.count_nonzero(t[1:] < t[:-1]), np.count_nonzero(t[1:] > t[:-1])
            if falls >= max(_FEWEST, _MOST * (falls + rises)):
                self._recordings += 1
                self._first = self._first or (
                    f"{self._source.place(file, int(rows.row[own][0]), self._source.time)}, person "
                    f"{rows.person!r}: got time that runs backwards in {falls:,} of "
                    f"{falls + rises:,} steps: the newest row is the first"
                )

    def check(self) -> None:
        """Refuse files whose newest row stands first.

        Raises
        ------
        DataError
            It names the first, and the option.
        """
        if self._first:
            more = f" (so in {self._recordings} recordings)" if self._recordings > 1 else ""
            raise DataError(
                f"{self._first}{more}; expected the oldest first. {spelt('backwards', 'sort')} "
                "puts rows in order of time"
            )
