"""Files in a tar, read where they lie: no path of an archive touches the disk."""

from __future__ import annotations

from collections.abc import Collection, Generator
from pathlib import Path, PurePosixPath
from typing import IO

from fedsub_core.errors import DataError
from fedsub_data.preparing.unpacking import DAMAGED, tar_files

__all__ = ["DAMAGED", "damaged", "each_file"]


def each_file(path: Path, names: Collection[str]) -> Generator[tuple[str, str, IO[bytes], int]]:
    """Yield name, place, opened file and size in bytes of each file of these names.

    What is raised while such a file is read, one of :data:`DAMAGED`, its reader meets.

    Parameters
    ----------
    path : a tar, packed or not, whose order they come in, or a folder, in order of their names.

    Raises
    ------
    DataError
        Where it is damaged or was truncated, at its end too, or holds more than it may
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
