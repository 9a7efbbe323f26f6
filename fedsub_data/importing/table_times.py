"""The column of time of tables in files: how it is written, and what its rows mean."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fedsub_data.importing.columns import Columns
from fedsub_data.importing.database import Database
from fedsub_data.importing.dates import OF_DAY
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows
from fedsub_data.importing.table_files import TableFiles
from fedsub_data.importing.zones import Mask, WallClock, check_named


class TableTimes:
    """The times of a table's rows.

    Parameters
    ----------
    columns : of the table, as far as they are known without a look at its dates.
    sample : the first rows' texts by column.
    tables : the files.
    place : the place of a row's time, by file and row.
    """

    def __init__(
        self,
        columns: Columns,
        sample: Mapping[str, Sequence[str | None]],
        tables: TableFiles,
        options: ImportOptions,
        place: Callable[[int, int], str],
    ) -> None:
        time = columns.roles.time
        self._options, self.notes = options, list[str]()
        #: Whether times are numbers, of a unit that is to be found; whether they are dates.
        self.ticks = time is not None and columns.ticks(sample[time])
        self.dated = time is not None and not self.ticks
        of_day = self.dated and columns.of_day(sample[str(time)])
        if self.dated and columns.types[str(time)] == "VARCHAR":
            form, self.notes = (OF_DAY, []) if of_day else tables.date_form(columns.roles)
            columns = replace(columns, dates=options.time_format or form)
        self.columns, self._clock = columns, WallClock(options, of_day, place)
        #: Its columns in the database, and as they are declared there.
        self.names = (["t"] if time else []) + (["named"] if self.dated else [])
        self.declared = (["t DOUBLE"] if time else []) + (["named BOOLEAN"] if self.dated else [])

    def read(self, rows: Rows, named: Mask | None) -> Rows:
        """Return one person's rows at the times that are meant; `named` bool [n], of dates."""
        return rows if named is None else self._clock.read(rows, named)

    def check(self, database: Database, place: Callable[[int], str]) -> list[str]:
        """Return a sentence where a zone is given and not needed.

        `place`: the place of the time of a row of the database.

        Raises DataError where some times name a zone, others none, and no zone is given.
        """
        counts = (0, 0, 0)
        if self.dated and not self._clock.of_day:
            counts = database.run(
                "SELECT count(*) FILTER (named), count(*) FILTER (NOT named), "
                "min(rowid) FILTER (NOT named) FROM rows WHERE t IS NOT NULL"
            ).fetchone()
        named, others, first = counts
        return check_named(named, others, lambda: place(first), self._options)
