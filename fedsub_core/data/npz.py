"""Npz files: read from others without pickle and with no more memory than their size can mean.

Written ones are packed where that makes them smaller. Photographs hardly shrink: packing them took
two thirds of the time in which they were dealt to people, and saved a twentieth of their size.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

#: A file may say that its arrays are this much larger than it is itself, beyond the first bytes:
#: sensor data shrink by a factor of 2 to 20, a file made to fill the memory by 1,000.
MOST_SHRUNK, FREE_BYTES = 100, 64 * 2**20

#: Bytes of an array by which it is seen whether it shrinks, and to which share it must.
_SEEN, _SHRUNK = 2**18, 0.9
#: At zlib's usual level, 6, signals of floats take eight times as long and 6 % less space.
_LEVEL = 1


def write_npz(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as `numpy.savez` does, packed where they shrink by a tenth or more.

    The same arrays give the same bytes.
    """
    with zipfile.ZipFile(file, "w", compresslevel=_LEVEL) as archive:
        for name, array in arrays.items():
            archive.compression = zipfile.ZIP_DEFLATED if _shrinks(array) else zipfile.ZIP_STORED
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _shrinks(array: NDArray[Any]) -> bool:
    rows = np.atleast_1d(array)
    begin = rows[: -(-_SEEN // max(1, rows[:1].nbytes))].tobytes()[:_SEEN]
    return len(zlib.compress(begin, _LEVEL)) <= _SHRUNK * len(begin)


def read_npz(
    path: Path, wanted: Collection[str] | None = None
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the arrays of an npz file that are wanted, and the names of all that it holds.

    None wants all.

    Raises ValueError where it is no npz, or declares more than a file of its size holds. Raises
    nearly anything else where the zip is damaged.
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
            names = list(file.files)
            return {name: file[name] for name in names if wanted is None or name in wanted}, names


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
