"""Options on how files are written: separators, encoding, lines beside the table, times."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.options import choice, option

#: The word for what is left to the data.
AUTO = "auto"


@dataclass(frozen=True)
class WrittenOptions:
    """Options on how files are written; every default fits a clean file."""

    time_unit: str = choice(AUTO, "s", "ms", "us", "ns", doc="unit of times that are numbers")
    dates: str = choice(
        AUTO,
        "year-first",
        "day-first",
        "month-first",
        doc="what stands first in dates as text, such as 09.05.2025 or 05/09/2025; auto: by a day "
        "above 12 among them",
    )
    time_format: str = option(
        "",
        "form of times as text, such as '%d %b %Y %H:%M:%S', as Python's strptime has it",
        pattern=r".*%\w.*|",
        like="a form with % such as '%d %b %Y %H:%M:%S'",
    )
    decimal: str = choice(
        AUTO, ".", ",", doc="decimal separator; auto: a comma where numbers show it, else a point"
    )
    skip_lines: int = option(
        -1, "lines before the names of columns; -1: found by what follows", minimum=-1
    )
    column_names: str = option(
        "", "names of all columns, with commas, of text files without a line of names"
    )
    delimiter: str = option(
        "",
        "separator of columns in text files; ' ' is any number of blanks; guessed if left out",
    )
    encoding: str = choice(
        AUTO,
        "utf-8",
        "utf-16",
        "latin-1",
        doc="encoding of text files; auto: from the byte-order mark",
    )
    skip: int = option(
        0, "rows to leave out below each table's header, such as a row of units", minimum=0
    )
    bad_lines: str = choice("stop", "drop", doc="lines with too many or too few columns")
    memory: str = option(
        "256MB",
        "memory limit of the database that reads tables; the rest goes to disk",
        pattern=r"[1-9]\d*(MB|GB)",
        like="a number with MB or GB, such as 256MB",
    )

    @property
    def date_form(self) -> str:
        """The form of times as text: what stands first in dates, or a form with ``%``."""
        return self.time_format or self.dates
