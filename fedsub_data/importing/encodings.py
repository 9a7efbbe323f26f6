"""Files of text opened: packed or not, by their encoding; and blanks between columns as tabs."""

import codecs
import gzip
import io
import zlib
from pathlib import Path
from typing import IO, cast

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.heads import LOOKED_AT, are_blanks_between
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.preparing.unpacking import check_unpacked

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Bytes in which the first line by which Excel is told what separates columns has its end.
_FIRST_LINE = 64
#: Characters of a record at most; DuckDB's own bound is below.
LONGEST = 1 << 22


def begin(path: Path, options: ImportOptions) -> tuple[bytes, str | None, str]:
    """Return a file's first bytes, the encoding that they are marked with, and the one to use."""
    try:
        if _is_packed(path):
            check_unpacked(path)  # what parses it next has no bound
        with _opened(path) as file:
            start = file.read(_FIRST_LINE)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({cut(error)}). Check the file") from error
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)
    if not start:
        raise DataError(f"{path}: got an empty file, expected a table. Export it again")
    # UTF-16 of Latin letters without a mark: each second byte is 0.
    halves = len(start) > 3 and not any(start[1::2])
    plain = "utf-16" if halves else "utf-8"
    return start, marked, options.encoding if options.encoding != AUTO else marked or plain


def tabs_for_blanks(path: Path, target: Path, options: ImportOptions) -> bool:
    """Write a file whose columns are separated by blanks with tabs; return whether it is one."""
    if options.delimiter not in ("", " "):
        return False
    encoding = begin(path, options)[2]
    if not options.delimiter and not are_blanks_between(first_lines(path, encoding)):
        return False
    try:
        with (
            decoded(path, encoding, "strict") as lines,
            open(target, "w", encoding="utf-8") as file,
        ):
            for line in lines:
                file.write("\t".join(line.split()) + "\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: got bytes that are no {encoding}. Say how it is written: "
            f"{spelt('encoding', 'latin-1')}"
        ) from error
    return True


def first_lines(path: Path, encoding: str) -> list[str]:
    """Return a file's first lines without their ends; the last one is left out if it is cut."""
    with decoded(path, encoding) as file:
        lines = [line for _ in range(LOOKED_AT) if (line := file.readline(LONGEST))]
    return [line.rstrip("\r\n") for line in lines]


def decoded(path: Path, encoding: str, errors: str = "replace") -> io.TextIOWrapper:
    """Open a file as text, its mark left out."""
    own = {"utf-8": "utf-8-sig"}.get(encoding, encoding)
    if encoding == "utf-16":
        with _opened(path) as file:
            marked = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        own = encoding if marked else "utf-16-le"
    return io.TextIOWrapper(_opened(path), own, errors=errors)


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _opened(path: Path) -> IO[bytes]:
    try:
        packed = _is_packed(path)
        return cast(IO[bytes], gzip.open(path) if packed else open(path, "rb"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Check the path") from error
