"""Reading npz files that others wrote: no pickle, and no more memory than their size can mean."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A file may say that its arrays are this much larger than it is itself, beyond the first bytes:
#: sensor data shrink by a factor of 2 to 20, a file made to fill the memory by 1,000.
MOST_SHRUNK, FREE_BYTES = 100, 64 * 2**20


def read_npz(path: Path, wanted: Collection[str]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the arrays of an npz file that are wanted, and the names of all that it holds.

    Raises
    ------
    ValueError
        Where it is no npz, or declares more than a file of its size holds.
    Exception
        Nearly anything else, where the zip is damaged.
    """
    # The file is opened here, because numpy leaves one of its own open where the zip is damaged.
    with open(path, "rb") as opened:
        if not zipfile.is_zipfile(opened):
            raise ValueError("it is no npz file; one that numpy.save wrote names no array")
        opened.seek(0)
        with zipfile.ZipFile(opened) as archive:
            declared = sum(_declared(archive, member) for member in archive.infolist())
        size = path.stat().st_size
        if declared > FREE_BYTES + MOST_SHRUNK * size:
            raise ValueError(
                f"it declares arrays of {declared} bytes in a file of {size}, expected at most "
                f"{MOST_SHRUNK} times as many"
            )
        opened.seek(0)
        # A pickle inside could run code, so it is never allowed.
        with np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if name in wanted}, list(file.files)


def _declared(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return the bytes that an array needs, by its header and by the zip's: the larger."""
    with archive.open(member) as opened:
        version = np.lib.format.read_magic(opened)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(opened)
    return max(member.file_size, int(np.prod(shape, dtype=object)) * dtype.itemsize)
