"""Big delimited text, read as a stream and refused exactly.

A file is cut into blocks of whole lines, and pandas' C parser reads a block. Only where it fails,
or where what it would forgive is found (a short row, a long one), are the block's lines looked at
one by one. So the memory is that of a block, and an error still names its line.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.preparing.members import Member
from fedsub_data.preparing.preparation import LONGEST_LINE, refused

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


@dataclass(frozen=True)
class Table:
    """The columns of a file, and how its lines are written.

    Parameters
    ----------
    columns : all of a line's fields, in their order.
    numbers : those read as numbers, finite ones.
    words : those read as words, each with the words that it may have.
    blank, may_be_blank : the text that stands for no value, and the number columns that may
        have it; it is read as NaN.
    separator, header : one character, and whether the first line is the columns' names.

    Columns that are neither numbers nor words may hold anything.
    """

    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blank: str = ""
    may_be_blank: tuple[str, ...] = ()
    separator: str = ","
    header: bool = True


@dataclass(frozen=True, eq=False)
class Rows:
    """Some successive lines of a file.

    Parameters
    ----------
    line : number of the first, from 1.
    numbers : float64 [rows, numbers], in the order of ``Table.numbers``.
    words : int64 [rows] for each column of ``Table.words``, indices into its words.
    """

    line: int
    numbers: NDArray[np.float64]
    words: dict[str, NDArray[np.int64]]


def read_table(
    file: IO[bytes], path: Member | str, table: Table, block_bytes: int = 1 << 22
) -> Iterator[Rows]:
    """Yield the lines of an open binary file, as many at a time as fill `block_bytes`.

    `path`: the file's name, for messages.

    Raises DataError where the header differs; a line has another number of fields; a number column
    holds text, no value or infinity; a word is unknown; a byte is not UTF-8; or the file ends
    inside a line or is empty. It names the file and the line.
    """
    line = 1
    for block in _blocks(file, path, block_bytes):
        lines = block
        if line == 1 and table.header:
            first, _, lines = block.partition(b"\n")
            expected = table.separator.join(table.columns)
            if first.rstrip(b"\r") != expected.encode():
                got = ascii(first[:200].decode(errors="replace").rstrip("\r"))
                raise refused(str(path), got, f"the header {expected}", 1)
            line = 2
        if lines:
            rows = _parsed(lines, line, table)
            if rows is None:
                raise _second_look(lines, path, line, table)
            yield rows
            line += len(rows.numbers)
    if line == 1:
        raise refused(str(path), "an empty file", "the official file; fetch it again")


def _blocks(file: IO[bytes], path: Member | str, block_bytes: int) -> Iterator[bytes]:
    """Yield the file in blocks that end where a line ends; only the last may lack that end."""
    rest = b""
    while data := file.read(block_bytes):
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
        if len(rest) > LONGEST_LINE:
            raise refused(str(path), f"a line of over {LONGEST_LINE} bytes", "lines of text")
    if rest:
        yield rest


def _parsed(block: bytes, line: int, table: Table) -> Rows | None:
    """Return the rows, or None where anything is wrong or left to pandas' indulgence."""
    if not block.endswith(b"\n"):
        block += b"\n"
    data = np.frombuffer(block, np.uint8)
    width = len(table.columns)
    # What separates fields must be, line by line, width - 1 separators and the line's end.
    marks = data[(data == ord("\n")) | (data == ord(table.separator))]
    ends = marks[width - 1 :: width] == ord("\n")
    count = len(marks) // width
    if len(marks) % width or not ends.all() or np.count_nonzero(marks == ord("\n")) != count:
        return None
    try:
        if b"\0" in block:  # pandas ends a field there
            return None
        if not block.isascii():
            block.decode("utf-8")
        frame = _frame(block, table)
    except (ValueError, OverflowError):
        return None
    numbers: NDArray[np.float64] = frame[list(table.numbers)].to_numpy(np.float64)
    needed = [c not in table.may_be_blank for c in table.numbers]
    if len(frame) != count or np.isinf(numbers).any() or np.isnan(numbers[:, needed]).any():
        return None
    words = {}
    for column, known in table.words.items():
        values = frame[column].cat
        if not set(values.categories) <= set(known):
            return None
        codes = np.array([known.index(word) for word in values.categories], np.int64)
        words[column] = codes[values.codes.to_numpy()]
    return Rows(line, numbers, words)


def _frame(block: bytes, table: Table) -> Any:
    types: dict[str, Any] = {column: np.float64 for column in table.numbers}
    types |= dict.fromkeys(table.words, "category")
    return pd.read_csv(
        io.BytesIO(block),
        engine="c",
        sep=table.separator,
        header=None,
        names=list(table.columns),
        index_col=False,
        usecols=list(types),
        dtype=types,
        na_values={column: [table.blank] for column in table.may_be_blank},
        keep_default_na=False,
        quoting=csv.QUOTE_NONE,
        skip_blank_lines=False,
        low_memory=False,
    )


def _second_look(block: bytes, path: Member | str, line: int, table: Table) -> DataError:
    """Return the error for the block's first bad line."""
    width = len(table.columns)
    lines = block.removesuffix(b"\n").split(b"\n")
    for number, raw in enumerate(lines, start=line):
        try:
            text = raw.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            got = f"byte 0x{raw[error.start]:02x}"
            return refused(str(path), got, "text in UTF-8", number)
        fields = text.split(table.separator)
        if len(fields) != width:
            got = f"{len(fields)} columns" if text else "an empty line"
            if raw is lines[-1] and not block.endswith(b"\n"):
                got += " and no end of the line: the file is truncated"
            return refused(str(path), got, f"{width} columns", number)
        for column, value in zip(table.columns, fields, strict=True):
            if expected := _fault(column, value, table):
                return refused(str(path), f"{value!a} as {column}", expected, number)
        if "\0" in text or "\r" in text:
            return refused(str(path), "a control character inside the line", "text", number)
    return refused(str(path), "a block that cannot be parsed", "numbers and words", line)


def _fault(column: str, value: str, table: Table) -> str:
    """Return what is expected instead of `value`, or nothing where it is right."""
    if column in table.words:
        known = table.words[column]
        return "" if value in known else "one of " + ", ".join(word or "''" for word in known)
    if column not in table.numbers:
        return ""
    blank = column in table.may_be_blank
    if blank and value == table.blank:
        return ""
    if _NUMBER.fullmatch(value) and np.isfinite(float(value)):
        return ""
    return "a finite number" + (f" or {table.blank or 'nothing'}" if blank else "")
