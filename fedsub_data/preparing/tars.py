"""Files in a tar, read where they lie: no path of an archive touches the disk."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from fedsub_core.errors import DataError

_CHUNK = 1 << 20
#: What reading a damaged file of an archive raises.
DAMAGED = (EOFError, OSError, tarfile.TarError, zlib.error)


def each_file(path: Path, names: Collection[str]) -> Iterator[tuple[str, str, IO[bytes], int]]:
    """Yield name, place, opened file and size in bytes of each file of these names.

    What is raised while such a file is read, one of :data:`DAMAGED`, its reader meets.

    Parameters
    ----------
    path : a tar, packed or not, whose order they come in, or a folder, in order of their names.

    Raises
    ------
    DataError
        Where it is damaged or was truncated, at its end too.
    """
    try:
        if path.is_dir():
            for name in sorted(names):
                if (path / name).is_file():
                    with open(path / name, "rb") as plain:
                        yield name, str(path / name), plain, (path / name).stat().st_size
            return
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                if member.isfile() and name in names:
                    file = archive.extractfile(member)
                    assert file is not None  # only links and folders have none
                    yield name, f"{path}/{member.name}", file, member.size
            # To the end of the packed file, where gzip's checksum stands.
            while archive.fileobj is not None and archive.fileobj.read(_CHUNK):
                pass
    except DAMAGED as error:
        raise damaged(path, error) from error


def damaged(path: Path | str, error: Exception) -> DataError:
    """Return the error for a file that cannot be read to its end."""
    return DataError(
        f"{path}: cannot be read to its end ({type(error).__name__}: {error}); it is damaged or "
        "was truncated. Fetch it again."
    )
