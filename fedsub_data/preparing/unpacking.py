"""Packed files of others, with a bound on what is unpacked or held in memory.

A few bytes can unpack to a disk full of zeros, and what an archive says of its files is read into
memory as a whole. So every file that is packed is opened here: by gzip, bzip2 or xz, zip or tar.
"""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from fedsub_core.data.npz import FREE_BYTES, MOST_SHRUNK
from fedsub_core.errors import DataError

#: Bytes at most of a tar's headers of one file, such as a long name, and of a zip's of all.
MOST_ABOUT_ONE, MOST_ABOUT_ALL = 2**16, 2**25
_ABOUT = "about one file in it"
#: Files in an archive at most; Tiny ImageNet's zip has 120,609.
MOST_FILES = 200_000
#: How packed files begin, and what unpacks them.
_PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_CHUNK = 2**20
#: What reading a damaged file raises. Headers that are nested without an end raise the last.
DAMAGED = (
    EOFError, OSError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error,
    RecursionError,
)  # fmt: skip


def most_unpacked(packed: int) -> int:
    """Return the most bytes that a file of `packed` bytes may unpack to.

    The files of the catalogue shrink by a factor of 85 at most: a graph's zeros and ones.
    """
    return FREE_BYTES + MOST_SHRUNK * packed


class Bounded(io.RawIOBase):
    """An unpacked file that ends with an error behind `most` bytes.

    `where`: its name, for messages.

    Raises DataError where more is read, or more than :meth:`allow` allows.
    """

    def __init__(self, file: IO[bytes], most: int, where: Path | str) -> None:
        self._file, self._most, self._where = file, most, where
        self._place = 0
        self._allowed = self._left = most
        self._what = "unpacked"

    def allow(self, bytes: int | None, what: str = "unpacked") -> None:
        """Allow so many more bytes to be read, of `what`; None: as many as the file may have."""
        self._allowed = self._left = self._most if bytes is None else bytes
        self._what = what

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return whether the packed file can be sought in."""
        return self._file.seekable()

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, fewer only at the end; all that are left below 0."""
        rest = min(self._most - self._place, self._left) + 1
        data = self._file.read(rest if size is None or size < 0 else min(size, rest))
        if len(data) > self._left:
            self._refuse(self._allowed, self._what)
        self._left -= len(data)
        self._at(self._place + len(data))
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the file goes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, bounded by the length that the file may have."""
        if whence == os.SEEK_SET:
            self._at(offset)
        self._at(self._file.seek(offset, whence))
        return self._place

    def tell(self) -> int:
        """Return the place, in bytes from the beginning."""
        return self._place

    def _at(self, place: int) -> None:
        if place > self._most:
            self._refuse(self._most, "unpacked")
        self._place = place

    def _refuse(self, most: int, what: str) -> None:
        raise _too_much("more", most, what, self._where)


def _too_much(got: str, most: int, what: str, where: Path | str) -> DataError:
    return DataError(
        f"{where}: got {got}, expected at most {most:,} bytes {what}: as it is packed, it would "
        "fill memory or disk. Fetch it again, or unpack it yourself"
    )


@contextmanager
def unpacked(path: Path) -> Iterator[Bounded]:
    """Open a file, unpacked if its first bytes show gzip, bzip2 or xz."""
    with open(path, "rb") as file:
        begin = file.read(6)
        size = path.stat().st_size
    how = next((how for mark, how in _PACKED.items() if begin.startswith(mark)), open)
    with cast(IO[bytes], how(path, "rb")) as opened:
        yield Bounded(opened, most_unpacked(size), path)


@contextmanager
def unpacked_member(raw: IO[bytes], packed: int, where: str) -> Iterator[IO[bytes]]:
    """Unpack a file that is open, of `packed` bytes, by its name's ending ``.gz`` or ``.bz2``."""
    how = {".gz": gzip.open, ".bz2": bz2.open}.get(Path(where).suffix)
    if how is None:
        yield raw
        return
    with cast(IO[bytes], how(raw, "rb")) as opened:  # type: ignore[operator]
        yield io.BufferedReader(Bounded(opened, most_unpacked(packed), where), _CHUNK)


def check_unpacked(path: Path) -> None:
    """Read a packed file to its end, before a reader without any bound does.

    Raises DataError where it unpacks to more than it may. What is damaged is left to the next
    reader.
    """
    with suppress(*DAMAGED), unpacked(path) as file:
        while file.read(_CHUNK):
            pass


@contextmanager
def opened_zip(file: Path | IO[bytes], where: Path | str, packed: int) -> Iterator[zipfile.ZipFile]:
    """Open a zip whose files are together no larger than a file of `packed` bytes may unpack to.

    Raises DataError where they say that they are larger, as those do that lie on top of each other,
    or are too many. A file that is larger than it says ends, for its reader, with an error.
    """
    with ExitStack() as stack:
        if isinstance(file, Path):
            file = stack.enter_context(open(file, "rb"))
        bounded = Bounded(file, most_unpacked(packed), where)
        # All that a zip says of its files is read into memory before the first is.
        bounded.allow(MOST_ABOUT_ALL, "about the files in it")
        archive = stack.enter_context(zipfile.ZipFile(cast(IO[bytes], bounded)))
        bounded.allow(None)
        _check_files(len(archive.filelist), where)
        size, most = sum(entry.file_size for entry in archive.filelist), most_unpacked(packed)
        if size > most:
            raise _too_much(f"{size:,}", most, "unpacked", where)
        archive.filename = f"{where}"
        yield archive


def tar_files(path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Yield each file in a tar, packed or not, in its order: its header and its content.

    Raises DataError where there is more than it may hold, more is said of one file than may be, or
    one has holes, of which a few bytes can say any size.
    """
    with unpacked(path) as raw:
        raw.allow(MOST_ABOUT_ONE, _ABOUT)
        # It reads a first header when it is opened.
        with tarfile.open(fileobj=cast(IO[bytes], raw), mode="r:") as archive:
            count = 0
            while (member := archive.next()) is not None:
                raw.allow(None)
                count += 1
                _check_files(count, path)
                if member.issparse():
                    raise DataError(
                        f"{path}: got {member.name!r} with holes, expected a plain file"
                    )
                # Links have a file, too: another's.
                if member.isfile() and (file := archive.extractfile(member)) is not None:
                    yield member, file
                raw.allow(MOST_ABOUT_ONE, _ABOUT)
        raw.allow(None)
        # To the end of the packed file, where gzip's checksum stands.
        while raw.read(_CHUNK):
            pass


def _check_files(count: int, where: Path | str) -> None:
    if count > MOST_FILES:
        raise DataError(f"{where}: got {count:,} files, expected at most {MOST_FILES:,}")
