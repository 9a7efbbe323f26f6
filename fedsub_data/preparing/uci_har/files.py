"""The official files of UCI-HAR: in the archive, in the archive inside it, or unpacked."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import refused, text_lines
from fedsub_data.preparing.unpacking import opened_zip

FOLDER = "UCI HAR Dataset"
ARCHIVE = f"{FOLDER}.zip"

#: The archive inside the archive is read into memory; the official one has 60 MB.
_LARGEST_INNER = 500_000_000

#: Lines of a file at most; of the official ones the longest has 7,352.
_MOST_LINES = 100_000

Folder = Path | zipfile.Path


@contextmanager
def opened(source: Path) -> Iterator[Folder]:
    """Yield the data set's folder, which has ``train`` and ``test``, unpacked or in an archive.

    Parameters
    ----------
    source : ``UCI HAR Dataset.zip``, the UCI page's zip that has it inside, or the unpacked folder,
        or a folder that holds one of them. Nothing of an archive is written anywhere.

    Raises DataError where the data set is not there, or an archive is damaged, also while it is
    read.
    """
    expected = f"{ARCHIVE}, the UCI page's zip with it inside, or the folder {FOLDER}"
    if source.is_dir():
        folders = [f for f in (source, source / FOLDER) if (f / "train").is_dir()]
        if folders:
            yield folders[0]
            return
        source = source / ARCHIVE
    if not source.is_file():
        raise refused(source, "no such file or folder", expected)
    try:
        size = source.stat().st_size
        with opened_zip(source, source, size) as archive:
            inner = _named(archive, ARCHIVE)
            if inner is None:
                yield _inside(archive, source, expected)
                return
            if inner.file_size > _LARGEST_INNER:
                got = f"{inner.file_size} bytes unpacked"
                raise refused(f"{source}/{inner.filename}", got, f"at most {_LARGEST_INNER}")
            read = BytesIO(archive.read(inner))
            with opened_zip(read, f"{source}/{inner.filename}", size) as nested:
                yield _inside(nested, source, expected)
    except (
        zipfile.BadZipFile, EOFError, OSError, RuntimeError, UnicodeDecodeError, zlib.error,
    ) as error:  # fmt: skip
        raise DataError(
            f"{source}: cannot be read as a zip ({type(error).__name__}: {error}); it is damaged, "
            "truncated or encrypted. Fetch it again."
        ) from error


def read_lines(folder: Folder, member: str) -> list[str]:
    """Return the lines of a member, such as ``train/y_train.txt``.

    Raises DataError where it is not there, or at a line that is not UTF-8.
    """
    path = folder / member
    if not path.is_file():
        raise refused(str(path), "no such file", f"it in {FOLDER}; is the folder whole?")
    with path.open("rb") as file:
        lines = []
        for number, line in text_lines(file, str(path)):
            if number > _MOST_LINES:
                raise refused(str(path), "more lines", f"at most {_MOST_LINES}")
            lines.append(line)
    return lines


def read_table(folder: Folder, member: str, columns: int) -> NDArray[np.float32]:
    """Return the numbers [lines, columns] of a member.

    Raises DataError as :func:`read_lines`, and at the first line that has not `columns` finite
    numbers.
    """
    lines = read_lines(folder, member)
    path = str(folder / member)
    try:
        if not all(lines):
            raise ValueError
        # No comments: a '#' is a fault here. Empty files only make numpy warn.
        table = np.loadtxt(lines, np.float32, comments=None, ndmin=2) if lines else None
    except ValueError:
        raise _blamed(lines, columns, path) from None
    if table is None or table.shape != (len(lines), columns):
        raise _blamed(lines, columns, path)
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        line = int(np.argmin(finite)) + 1
        raise refused(path, "a number that is not finite", f"{columns} finite numbers", line)
    return table


def _blamed(lines: Sequence[str], columns: int, path: str) -> DataError:
    """Return the error for the first line that has not `columns` numbers."""
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if len(fields) != columns:
            return refused(path, f"{len(fields)} values", f"{columns} on each line", number)
        for field in fields:
            try:
                float("no" if "_" in field else field)
            except ValueError:
                return refused(path, repr(field), "a number", number)
    return refused(path, f"{len(lines)} lines", f"lines of {columns} plain numbers")


def _named(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo | None:
    entries = (i for i in archive.infolist() if i.filename.rsplit("/", 1)[-1] == name)
    return next(entries, None)


def _inside(archive: zipfile.ZipFile, source: Path, expected: str) -> zipfile.Path:
    for folder in (zipfile.Path(archive, f"{FOLDER}/"), zipfile.Path(archive)):
        if (folder / "train").is_dir():
            return folder
    raise refused(source, f"an archive without {FOLDER}/train", expected)
