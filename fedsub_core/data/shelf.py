"""Where features lie that nobody computes with now: beyond a bound in a file instead of memory."""

from __future__ import annotations

from mmap import ACCESS_COPY, mmap
from tempfile import TemporaryFile, gettempdir
from typing import IO

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError

#: Bytes of features that are kept in memory as they are.
MEMORY = 256 * 2**20


class Shelf:
    """Arrays in the order in which they come; more than `memory` bytes of them go into a file.

    The file has no name, is gone with the process, and is mapped: what is read of it takes memory
    only until something else needs that.

    Raises
    ------
    DataError
        Where the file cannot be written.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory, self._bytes = memory, 0
        self._held: list[NDArray[np.float32]] = []
        self._shapes: list[tuple[int, ...]] = []
        self._file: IO[bytes] | None = None

    def put(self, array: NDArray[np.float32]) -> None:
        """Put an array beside the others."""
        self._shapes.append(array.shape)
        self._held.append(array)
        self._bytes += array.nbytes
        if self._bytes <= self._memory:
            return
        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="fedsub-data-")  # noqa: SIM115 (until all is taken)
            for one in self._held:
                self._file.write(one.tobytes())
            self._file.flush()
        except OSError as error:
            raise DataError(
                f"{gettempdir()}: features of more than {self._memory / 2**20:g} MiB cannot be "
                f"written there ({error}). Make room, or name another folder in TMPDIR."
            ) from error
        self._held.clear()

    def arrays(self) -> list[NDArray[np.float32]]:
        """Take all arrays, in their order, off the shelf; they may be changed."""
        if self._file is None:
            return list(self._held)
        with self._file as file:  # the map keeps it
            # One for all: a system allows a process only so many.
            mapped = np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_COPY), np.float32)
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        parts = np.split(mapped, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]
