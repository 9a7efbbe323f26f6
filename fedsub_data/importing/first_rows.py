"""First rows that are no part of a recording: units, an export's facts, a sensor that starts.

Some exports begin with the time of the start and the rate, in the columns of the signal. In the
first window they outweigh everything else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Dropped, Why, stopped
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.source import Rows, Source, file_of
from fedsub_data.importing.time_unit import SECONDS

#: So many first rows are looked at; a recording with fewer others shows nothing.
_FIRST, _OTHERS = 10, 50
#: A value is far off that lies so many times the range of all later ones from their middle.
_FAR = 20.0
#: So many first rows with the same numbers in all columns are a sensor that starts.
_STILL = 5
#: So many people are named.
_SHOWN = 3


class FirstRows:
    """A filter of a signal's first rows: it leaves them out or refuses them, as options say."""

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._options = source, options
        self._still: dict[str, str] = {}

    def without(self, rows: Rows, dropped: Dropped) -> Rows:
        """Return one person's rows without first ones that are far off all others of their file.

        Raises DataError where there are some and no option says what to do; it names file, line and
        column.
        """
        if rows.x.ndim != 2 or self._options.first_rows == "keep":
            return rows
        kept = np.ones(len(rows), np.bool_)
        starts = np.flatnonzero(np.diff(rows.file, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            x = rows.x[begin:end]
            if len(x) < _FIRST + _OTHERS:
                continue
            count, column = _far_off(x)
            still = 0 if count else _still(x)
            if count and self._options.first_rows == "stop":
                file, row = int(rows.file[begin]), int(rows.row[begin])
                feature = self._source.features[column]
                raise stopped(
                    Why.FIRST.value[0],
                    count,
                    f"{self._source.place(file, row, feature)}, person {rows.person!r}",
                    f"They are far off all later ones. {spelt('first-rows', 'drop')} leaves them "
                    "out, as lines with a start time or a rate; keep lets them pass",
                )
            if still and self._options.first_rows == "stop":
                name = file_of(self._source, int(rows.file[begin]))
                self._still[rows.person] = f"{still:,} of {rows.person!r} in {Path(name).name}"
                still = 0
            kept[begin : begin + max(count, still)] = False
        dropped.add(Why.FIRST, rows.person, int((~kept).sum()))
        return rows if kept.all() else rows.part(kept)

    def notes(self) -> list[str]:
        """Return a sentence on recordings that begin with rows that are all the same."""
        if not self._still:
            return []
        shown = list(self._still.values())
        more = f", and {len(shown) - _SHOWN} people more" if len(shown) > _SHOWN else ""
        return [
            "First rows have the same numbers in all columns, which never come again: "
            f"{', '.join(shown[:_SHOWN])}{more}. If the sensor was starting, leave them out: "
            f"{spelt('first-rows', 'drop')}."
        ]


def _far_off(x: np.ndarray) -> tuple[int, int]:
    """Return the number of first rows that are far off, and the column of the first of them."""
    others = x[_FIRST:]
    low, high = np.fmin.reduce(others), np.fmax.reduce(others)
    with np.errstate(invalid="ignore"):
        middle, width = (low + high) / 2, high - low
        far = (np.abs(x[:_FIRST] - middle) > _FAR * width) & (width > 0) & np.isfinite(x[:_FIRST])
    which = np.flatnonzero(far.any(axis=1))
    if not len(which):
        return 0, 0
    count = int(which[-1]) + 1
    # A rate stands below the time of the start, once for each column.
    while x.shape[1] > 1 and count < _FIRST and (x[count] == x[count, 0]).all():
        count += 1
    return count, int(far[which[0]].argmax())


def _still(x: np.ndarray) -> int:
    """Return the number of equal first rows whose numbers never come again; 0 below _STILL."""
    if x.shape[1] < 2 or not (x[:_STILL] == x[0]).all():
        return 0
    same = (x == x[0]).all(axis=1)
    count = int(same.argmin())
    return count if 0 < count == same.sum() else 0


def check_unit_rows(
    numbers: Mapping[str, Sequence[bool | None]],
    columns: Mapping[str, Sequence[str | None]],
    time: str | None,
    options: ImportOptions,
    where: str,
) -> None:
    """Refuse first rows without a number in any column of numbers.

    Parameters
    ----------
    numbers : of the first rows of each column of numbers, whether it is one; None is no value.
    columns : the first rows' texts by column.
    time : the column of time.
    where : the file, for messages.

    Raises DataError; it shows the first of them, and names the options.
    """
    rows = list(zip(*numbers.values(), strict=True))
    count = 0
    while count < len(rows) and not any(rows[count]) and False in rows[count]:
        count += 1
    if not 0 < count < len(rows):
        return
    cells = [cut(column[0] or "") for column in columns.values()]
    unit = columns[time][0] if time is not None else None
    also = f" {spelt('time-unit', unit)}" if unit in SECONDS and options.time_unit == AUTO else ""
    raise DataError(
        f"{where}: got {', '.join(cells)} below the names of columns, which seems to be a row of "
        f"units, expected numbers. {spelt('skip', options.skip + count)}{also} leaves it out"
    )
