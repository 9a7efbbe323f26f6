"""How a table of text is written: encoding, separators, header; and on which line a row stands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.encodings import LONGEST, begin, decoded, first_lines
from fedsub_data.importing.heads import lines_before
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.unit_rows import unit_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Texts that mean no value.
EMPTY = ("", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "?")
#: Rows by which a file's form is found.
_SAMPLED = 2048


@dataclass(frozen=True)
class Dialect:
    """How one file of text is written.

    Parameters
    ----------
    marked : whether it begins with a byte-order mark.
    header, skipped : whether there is a line of names, and lines before it.
    units : of each column, "" where none is named; empty where no row of units stands there.
    above : lines before the names of columns.
    """

    encoding: str
    marked: bool
    delimiter: str
    quote: str
    comment: str
    header: bool
    skipped: int
    columns: tuple[str, ...]
    first: str = ""
    units: tuple[str, ...] = ()
    above: int = 0

    def relation(self, bad_lines: str, empty: Sequence[str] = EMPTY) -> str:
        """Return the table function's call on a file ``?``, all columns as text, in SQL.

        Texts that are `empty` are NULL.
        """
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.columns)
        settings = {
            "auto_detect": "false",
            # Else DuckDB 2.0 scans a file in parts, and some rows come last, in one thread, too.
            "parallel": "false",
            "encoding": literal(self.encoding),
            "delim": literal(self.delimiter),
            "quote": literal(self.quote),
            "escape": literal(self.quote),
            "comment": literal(self.comment),
            "header": str(self.header).lower(),
            "skip": str(self.skipped),
            "columns": f"{{{columns}}}",
            "nullstr": "[" + ", ".join(map(literal, empty)) + "]",
        }
        if bad_lines == "drop":
            settings |= {"store_rejects": "true", "rejects_limit": "0"}
        return "read_csv(?, " + ", ".join(f"{k} = {v}" for k, v in settings.items()) + ")"


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def name(text: str) -> str:
    """Return a column's name as SQL has it."""
    return '"' + text.replace('"', '""') + '"'


def dialect(connection: DuckDBPyConnection, path: Path, options: ImportOptions) -> Dialect:
    """Return the form of a file: as the options say, else by its first lines.

    Raises DataError where it is empty, or has one column.
    """
    start, marked, encoding = begin(path, options)
    lines = first_lines(path, encoding)
    sep = _sep(path, start.decode(encoding, "ignore"), marked is not None)
    delimiter = options.delimiter or sep
    given = f", delim = {literal(delimiter)}" if delimiter else ""
    skipped = options.skip_lines
    if skipped < 0:
        skipped = lines_before(lines, delimiter) or (1 if sep else 0)
    below = None
    if not options.column_names and not options.skip:
        below = unit_rows(lines[skipped:], delimiter)
    above = skipped
    if below is not None:
        skipped += below.lines
        given = f", delim = {literal(below.delimiter)}"
    given += f", skip = {skipped}" if skipped else ""
    given += ", header = false" if options.column_names or below else ""
    row: Any = connection.execute(
        f"FROM sniff_csv(?, sample_size = {_SAMPLED}, encoding = {literal(encoding)}, "
        f"ignore_errors = true{given})",
        [str(path)],
    ).fetchone()
    keys = [column[0] for column in connection.description]
    sniffed = dict(zip(keys, row, strict=True))
    columns = tuple(str(column["name"]) for column in sniffed["Columns"])
    names = below.names if below else _names(path, options, len(columns))
    columns = names or columns
    if len(columns) < 2 and not names:
        way = f"Say what separates them with {spelt('delimiter')}"
        if options.delimiter:
            way = spelt("delimiter", repr(options.delimiter))
            way = f"{way} does not: without it, it is guessed"
        raise DataError(
            f"{path}: got one column, {cut(columns[0])!r}, expected a table of several. {way}"
        )

    def mark(key: str, default: str) -> str:
        return default if sniffed[key] in (None, "(empty)", "") else str(sniffed[key])

    return Dialect(
        encoding,
        marked is not None,
        str(sniffed["Delimiter"]),
        mark("Quote", '"'),
        mark("Comment", ""),
        bool(sniffed["HasHeader"]) and not names,
        int(sniffed["SkipRows"]),
        columns,
        lines[0].strip() if lines else "",
        below.units if below else (),
        above if below else int(sniffed["SkipRows"]),
    )


def _sep(path: Path, start: str, marked: bool) -> str:
    """Return the separator of a first line by which Excel is told it; "" without such a line."""
    sep = re.match('\ufeff?"?sep=(.)"?[\r\n]', start)
    if sep and marked and '"' in sep[0]:  # DuckDB takes all that follows for one cell
        raise DataError(
            f"{path}, line 1: got {sep[0].strip()!r} behind a byte-order mark, expected it without "
            "quotes. Remove the line"
        )
    return sep[1] if sep else ""


def _names(path: Path, options: ImportOptions, count: int) -> tuple[str, ...]:
    """Return the names of columns that were given, if any; raises DataError for another number."""
    names = tuple(part.strip() for part in options.column_names.split(",") if part.strip())
    if names and len(names) != count:
        raise DataError(
            f"{path}: got {count} columns, expected {len(names)}, as "
            f"{spelt('column-names')} names {', '.join(names)}"
        )
    return names


def line_of(path: Path, form: Dialect, row: int, rejected: Collection[int] = ()) -> int:
    """Return the line, from 1, on which the file's row `row`, from 0, begins.

    Empty lines, comments and lines that were `rejected`, by their number, are no rows; a quoted
    cell may span several lines.
    """
    before = form.header
    for number, text in _records(path, form):
        if number <= form.skipped or not text.strip() or number in rejected:
            continue
        if form.comment and text.startswith(form.comment):
            continue
        if before:
            before = False
        elif row == 0:
            return number
        else:
            row -= 1
    raise DataError(f"{path}: changed while it was read: it ends before a row that was there")


def _records(path: Path, form: Dialect) -> Iterator[tuple[int, str]]:
    """Yield each record with the number of the line on which it begins."""
    begun, held = 0, ""
    with decoded(path, form.encoding) as lines:
        read = iter(partial(lines.readline, LONGEST + 1), "")
        for number, line in enumerate(read, start=1):
            begun, held = (number, line) if not held else (begun, held + line)
            if len(held) > LONGEST:
                raise DataError(
                    f"{path}, line {begun}: got a longer line, expected at most {LONGEST} "
                    "characters. Does a quote lack its end?"
                )
            if held.count(form.quote) % 2 == 0:
                yield begun, held
                held = ""
