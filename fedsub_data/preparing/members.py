"""Official files where they lie: in a folder, a tar, a zip, or a zip inside a zip.

Members are read as streams and never unpacked, so no path of an archive touches the disk.
"""

import re
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO

from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import refused
from fedsub_data.preparing.unpacking import DAMAGED, opened_zip, tar_files

#: How deep below the folder that a user names the files may lie.
_DEPTHS = ("*", "*/*", "*/*/*")

#: What reading a damaged file or archive raises, and what opening an encrypted or exotic one does.
_DAMAGED = (
    OSError, EOFError, NotImplementedError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_UNREADABLE = (*_DAMAGED, RuntimeError)


@dataclass(frozen=True)
class Member:
    """A file to read; picklable, so that another process can open it.

    Parameters
    ----------
    source : the file itself, or the zip that holds it.
    inside : the member's name, after the inner zip's name where there is one; empty for a plain
        file.
    """

    source: Path
    inside: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "/".join([str(self.source), *self.inside])

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return PurePosixPath(self.inside[-1]).name if self.inside else self.source.name

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file for reading, and its archives with it.

        Raises DataError where the file or an archive is damaged, encrypted or cannot be read.
        """
        with ExitStack() as stack:
            try:
                file: IO[bytes] = stack.enter_context(open(self.source, "rb"))
                for name in self.inside:
                    archive = stack.enter_context(opened_zip(file, *self._outer))
                    file = stack.enter_context(archive.open(name))
            except _UNREADABLE as error:
                raise _refused(self, error) from error
            try:
                yield file
            except _DAMAGED as error:
                raise _refused(self, error) from error

    @property
    def _outer(self) -> tuple[Path, int]:
        """The file on the disk, and its bytes: what is in it may be so much larger and no more."""
        return self.source, self.source.stat().st_size

    def size(self) -> int:
        """Return the file's length in bytes, unpacked."""
        if not self.inside:
            return self.source.stat().st_size
        *outer, name = self.inside
        with (
            Member(self.source, tuple(outer)).open() as file,
            opened_zip(file, *self._outer) as archive,
        ):
            return archive.getinfo(name).file_size


def find_members(source: Path, wanted: str, expected: str) -> list[Member]:
    """Return the files in `source` that `wanted` matches, sorted by name.

    Parameters
    ----------
    source : a folder, a zip, a zip that holds the zip, or the file itself.
    wanted : regular expression of the path, from the folder that holds the file (its own name
        included) or from the archive's root, with ``/``.
    expected : what should have been there, in words, for the message.

    Raises DataError where there is none, or two of one name.
    """
    if not source.exists():
        raise refused(source, "no such file or folder", expected)
    if source.is_file() and source.suffix == ".zip" and not zipfile.is_zipfile(source):
        raise refused(source, "a damaged or truncated zip", f"{expected}; fetch it again")
    files = _files(source)
    members = _matching(files, wanted)
    if not members:
        inner = [member for name, member in files.items() if name.endswith(".zip")]
        members = [m for outer in inner for m in _matching(_zipped(outer), wanted)]
    if not members:
        raise refused(source, "no such file in it", expected)
    members.sort(key=lambda member: member.name)
    for first, second in pairwise(members):
        if first.name == second.name:
            raise refused(str(second), f"a second {first.name} beside {first}", "one of that name")
    return members


def _matching(files: dict[str, Member], wanted: str) -> list[Member]:
    return [member for name, member in files.items() if re.fullmatch(wanted, name)]


def _files(source: Path) -> dict[str, Member]:
    if source.is_dir():
        top = source.resolve().name
        paths = [p for depth in _DEPTHS for p in source.glob(depth) if p.is_file()]
        return {f"{top}/{p.relative_to(source).as_posix()}": Member(p) for p in sorted(paths)}
    if zipfile.is_zipfile(source):
        return _zipped(Member(source))
    return {f"{source.resolve().parent.name}/{source.name}": Member(source)}


def _zipped(outer: Member) -> dict[str, Member]:
    with outer.open() as file, opened_zip(file, *outer._outer) as archive:
        names = archive.namelist()
    return {name: Member(outer.source, (*outer.inside, name)) for name in names}


def _refused(member: Member, error: Exception) -> DataError:
    got = f"{type(error).__name__}: {error}"
    return refused(str(member), got, "a file that can be read; fetch it again")


def each_file(path: Path, names: Collection[str]) -> Generator[tuple[str, str, IO[bytes], int]]:
    """Yield name, place, opened file and size in bytes of each file of these names.

    What is raised while such a file is read, one of :data:`DAMAGED`, its reader meets.

    `path`: a tar, packed or not, whose order they come in, or a folder, in order of their names.

    Raises DataError where it is damaged or was truncated, at its end too, or holds more than it may
    (:mod:`fedsub_data.preparing.unpacking`).
    """
    try:
        if path.is_dir():
            for name in sorted(names):
                if (path / name).is_file():
                    with open(path / name, "rb") as plain:
                        yield name, str(path / name), plain, (path / name).stat().st_size
            return
        for member, file in tar_files(path):
            if (name := PurePosixPath(member.name).name) in names:
                yield name, f"{path}/{member.name}", file, member.size
    except DAMAGED as error:
        raise damaged(path, error) from error


def damaged(path: Path | str, error: Exception) -> DataError:
    """Return the error for a file that cannot be read to its end."""
    return DataError(
        f"{path}: cannot be read to its end ({type(error).__name__}: {error}); it is damaged or "
        "was truncated. Fetch it again."
    )
