"""Lines before a table's header, as loggers write them, and separators that are blanks."""

import csv
import re
from collections.abc import Sequence

from fedsub_core.spelling import spelt
from fedsub_data.importing.roles import EMPTY, is_number
from fedsub_data.importing.written_options import AUTO, WrittenOptions

#: Lines of a file by which its head is found.
LOOKED_AT = 200
#: Separators of columns that are tried.
_DELIMITERS = (",", ";", "\t", "|")
#: Fewer rows are no table.
_FEWEST = 3


def lines_before(lines: Sequence[str], delimiter: str) -> int:
    """Return how many lines stand before the names of columns; 0 where nothing shows them.

    The table is what has one number of cells up to the end. Its first line holds names, and no
    line before it has so many cells: such a line would be a row, and one between them damaged.

    Parameters
    ----------
    lines : the first ones of the file.
    delimiter : of columns; "" where it is not known.
    """
    best = (0, 0)
    at = [number for number, line in enumerate(lines) if line.strip()]
    lines = [lines[number] for number in at]
    for each in [delimiter] if delimiter else _DELIMITERS:
        cells = [next(csv.reader([line], delimiter=each), []) for line in lines]
        widths = [len(row) for row in cells]
        if len(lines) < _FEWEST or widths[-1] < 2:
            continue
        other = [i for i, width in enumerate(widths) if width != widths[-1]]
        begin = other[-1] + 1 if other else 0
        row = cells[begin] if begin < len(lines) else []
        named = row and not any(is_number(cell) for cell in row) and len(set(row)) == len(row)
        named = named and all(cell.strip().lower() not in EMPTY for cell in row)
        if len(lines) - begin < _FEWEST or widths[-1] in widths[:begin] or not named:
            continue
        if any(line.count('"') % 2 for line in lines):  # a cell of several lines
            continue
        best = max(best, (widths[-1], begin))
    return at[best[1]] if best[1] else 0


def are_blanks_between(lines: Sequence[str]) -> bool:
    """Return whether blanks separate columns, as in tables that are aligned."""
    rows = [line.split() for line in lines if line.strip()]
    if len(rows) < _FEWEST or any(re.search("[,;|\t]", line) for line in lines):
        return False
    widths = {len(row) for row in rows}
    return len(widths) == 1 and widths.pop() > 1


def shows_decimal_comma(values: Sequence[Sequence[str | None]]) -> bool:
    """Return whether numbers of text have a comma before their decimals.

    ``1,234`` may be a thousand. So it is no decimal comma where all commas may be such.

    `values`: the texts of each column of numbers.
    """
    shown = False
    for column in values:
        texts = [v.strip() for v in column if v]
        commas = [text for text in texts if re.fullmatch(r"[+-]?\d*,\d+([eE][+-]?\d+)?", text)]
        if commas and any("." in text for text in texts if is_number(text)):
            return False
        shown |= any(not re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", text) for text in commas)
    return shown


def decimal_of(
    columns: Sequence[Sequence[str | None]], options: WrittenOptions
) -> tuple[str, list[str]]:
    """Return the separator of decimals, as it was said or shows, and sentences on the guess."""
    if options.decimal != AUTO:
        return options.decimal, []
    if not shows_decimal_comma(columns):
        return ".", []
    return ",", [f"Guessed: {spelt('decimal', ',')}."]
