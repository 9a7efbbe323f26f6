"""Rows of units below the names of columns, which hold no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.time_unit import SECONDS


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

    Raises
    ------
    DataError
        It shows the first of them, and names the options.
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
