"""JPEG and PNG files in folders or in a zip, one after another, decoded by Pillow."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from fedsub_core.errors import DataError, cut
from fedsub_data.preparing.preparation import refused
from fedsub_data.preparing.unpacking import opened_zip
from fedsub_papers.preparing.pictures.parts import Pictures

#: Names of the files, with ``/``, and what returns one's bytes.
Files = tuple[list[str], Callable[[str], bytes]]

_FORMATS = ("JPEG", "PNG")
# The sets that are read have pictures below 60 kB and 227 pixels wide.
_MOST_BYTES, _MOST_PIXELS = 2**24, 2**22
_DAMAGED = (
    OSError, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Pillow raises SyntaxError for broken PNGs.
_UNDECODED = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


@contextmanager
def picture_files(source: Path, wanted: str, expected: str) -> Iterator[Files]:
    """Yield the names of files in `source`, sorted, and what reads one; a zip is opened once.

    Parameters
    ----------
    source : a folder or a zip. Nothing of a zip is written anywhere.
    wanted : regular expression of a file's path below `source`, or of its end from a folder on.
    expected : what should have been there, in words, for the message.

    Raises DataError where there is no such file, also while they are read: where one is damaged or
    too large.
    """
    pattern = re.compile(rf"(?:.*/)?(?:{wanted})")
    try:
        if source.is_dir():
            paths = {p.relative_to(source).as_posix(): p for p in sorted(source.rglob("*"))}
            yield _matching(paths, pattern, source, expected), lambda name: _read(paths[name])
            return
        with opened_zip(source, source, source.stat().st_size) as archive:
            names = _matching(archive.namelist(), pattern, source, expected)
            yield names, lambda name: _unzipped(archive, name)
    except _DAMAGED as error:
        raise DataError(
            f"{source}: cannot be read ({type(error).__name__}: {error}); expected {expected}. It "
            "is damaged, truncated or encrypted. Fetch it again."
        ) from error


def decoded(
    body: bytes, where: str, official: tuple[int, int] | None = None, size: int | None = None
) -> Pictures:
    """Return a picture, uint8 [3, height, width]; grey ones have three like channels.

    Parameters
    ----------
    official : width and height that it must have; None is any.
    size : width and height that it is made smaller or larger to; None leaves it.

    Raises DataError where it is no JPEG or PNG, is damaged or truncated, is of another size than
    `official`, or has more than 4 million pixels.
    """
    try:
        # Others, such as EPS, run programs.
        with Image.open(io.BytesIO(body), formats=_FORMATS) as image:
            if official is not None and image.size != official:
                expected = f"{official[0]} x {official[1]}, as all others"
                raise refused(where, f"a picture of {image.width} x {image.height}", expected)
            if image.width * image.height > _MOST_PIXELS:
                got = f"a picture of {image.width} x {image.height}"
                raise refused(where, got, f"at most {_MOST_PIXELS} pixels")
            colours = image.convert("RGB")
    except _UNDECODED as error:
        got = f"{type(error).__name__}: {cut(error)}"
        raise refused(where, got, "a whole JPEG or PNG; fetch it again") from error
    if size is not None and colours.size != (size, size):
        colours = colours.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(colours).transpose(2, 0, 1)


def dimensions(body: bytes, where: str) -> tuple[int, int]:
    """Return a picture's width and height; raises DataError where it is no JPEG or PNG."""
    try:
        with Image.open(io.BytesIO(body), formats=_FORMATS) as image:
            return image.size
    except _UNDECODED as error:
        got = f"{type(error).__name__}: {cut(error)}"
        raise refused(where, got, "a whole JPEG or PNG; fetch it again") from error


def _matching(
    names: Iterable[str], pattern: re.Pattern[str], source: Path, expected: str
) -> list[str]:
    # What macOS keeps beside files begins with "._".
    shown = (name for name in names if not name.rsplit("/", 1)[-1].startswith("._"))
    found = sorted(name for name in shown if pattern.fullmatch(name))
    if not found:
        raise refused(source, "no such file in it", expected)
    for first, second in pairwise(found):
        if first == second:
            raise refused(source, f"a second {first}", "each file once")
    return found


def _read(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise refused(path, f"{path.stat().st_size} bytes", f"at most {_MOST_BYTES}")
    return path.read_bytes()


def _unzipped(archive: zipfile.ZipFile, name: str) -> bytes:
    size = archive.getinfo(name).file_size
    if size > _MOST_BYTES:
        raise refused(f"{archive.filename}/{name}", f"{size} bytes", f"at most {_MOST_BYTES}")
    return archive.read(name)
