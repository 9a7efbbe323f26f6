"""Arrays in a file without a name, which is mapped: they take memory only while they are read.

The file is gone with the process, even if that is killed. Only its owner can open it while it is
made (mode 0600), and nobody after that.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Sequence
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

#: Files that are mapped, as long as somebody holds an array of theirs: where each begins and ends.
_mapped: dict[int, tuple[int, ref[mmap.mmap]]] = {}
#: Where they begin, ascending.
_begins: list[int] = []
_lock = Lock()
#: Bytes before and behind what is read that a system reads with it.
_AROUND = 2**16


class MappedFile:
    """A file of arrays that are written one after another.

    Raises OSError where it cannot be written: its folder is full, or lacks.
    """

    def __init__(self) -> None:
        self._kinds: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self._file: IO[bytes] = TemporaryFile(prefix="fedsub-")  # noqa: SIM115 (until all is taken)

    def put(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Write arrays behind the others."""
        for array in arrays:
            self._file.write(np.ascontiguousarray(array).data)
            self._kinds.append((array.shape, array.dtype))
        self._file.flush()

    def arrays(self) -> list[NDArray[Any]]:
        """Take all arrays, in their order, out of the file; they may be changed in memory."""
        with self._file as file:  # the map keeps it
            # One for all: a system allows a process only so many.
            of_file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        mapped = np.frombuffer(of_file, np.uint8)
        begin = _address(mapped)
        with _lock:
            for gone in [at for at, (_, kept) in _mapped.items() if kept() is None]:
                del _mapped[gone]
            _mapped[begin] = begin + len(mapped), ref(of_file)
            _begins[:] = sorted(_mapped)
        ends = np.cumsum([int(np.prod(shape)) * kind.itemsize for shape, kind in self._kinds])
        parts = zip(np.split(mapped, ends[:-1]), self._kinds, strict=True)
        return [part.view(kind).reshape(shape) for part, (shape, kind) in parts]


def mapped(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return arrays as they lie in a new file, in their order.

    Raises OSError; as :class:`MappedFile`.
    """
    file = MappedFile()
    file.put(arrays)
    return file.arrays()


def is_mapped(array: NDArray[Any]) -> bool:
    """Return whether an array lies in a mapped file."""
    return _file_of(_address(array)) is not None


def let_go(at: int, size: int) -> None:
    """Free the memory that reading a mapped file has taken; what is read anew comes from the file.

    Nobody may have changed an array of that file. A system that cannot be told so frees the memory
    when something else needs it. Of what lies in no such file nothing happens.

    Parameters
    ----------
    at, size : address and bytes of what was read.
    """
    if (found := _file_of(at)) is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    file, begin = found
    first = max(at - begin - _AROUND, 0) // mmap.PAGESIZE * mmap.PAGESIZE
    last = min(at - begin + size + _AROUND, len(file))
    file.madvise(mmap.MADV_DONTNEED, first, last - first)


def release(array: NDArray[Any]) -> None:
    """Free the memory that reading an array took, as :func:`let_go` does."""
    if isinstance(array, np.ndarray):  # else they are a worker's: fedsub_core.remote_numbers
        let_go(_address(array), array.nbytes)


def _file_of(at: int) -> tuple[mmap.mmap, int] | None:
    """Return the mapped file that an address lies in, and its own; None: it lies in none."""
    with _lock:
        before = bisect_right(_begins, at) - 1
        begin = _begins[before] if before >= 0 else 0
        end, kept = _mapped.get(begin, (0, None))
        if at < end and kept is not None and (file := kept()) is not None:
            return file, begin
    return None


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
