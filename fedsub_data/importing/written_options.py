"""Options on how files are written: separators, encoding, lines beside the table."""

from dataclasses import dataclass

from fedsub_core.options import choice, option

#: The word for what is left to the data.
AUTO = "auto"


@dataclass(frozen=True)
class WrittenOptions:
    """Options on how files are written; every default fits a clean file."""

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
