"""A store of features: beyond a bound they lie in a file instead of memory."""

from __future__ import annotations

from mmap import ACCESS_COPY, mmap
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

import numpy as np

from fedsub_core.data.samples import Samples
from fedsub_core.errors import DataError

#: Bytes of features that are kept in memory as they are.
MEMORY = 256 * 2**20


class FeatureStore:
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
        self._held: list[Samples] = []
        self._kinds: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self._file: IO[bytes] | None = None

    def put(self, array: Samples) -> None:
        """Put an array beside the others."""
        self._kinds.append((array.shape, array.dtype))
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

    def arrays(self) -> list[Samples]:
        """Take all arrays, in their order, out of the store; they may be changed."""
        if self._file is None:
            return list(self._held)
        with self._file as file:  # the map keeps it
            # One for all: a system allows a process only so many.
            mapped = np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_COPY), np.uint8)
        ends = np.cumsum([int(np.prod(shape)) * kind.itemsize for shape, kind in self._kinds])
        parts = zip(np.split(mapped, ends[:-1]), self._kinds, strict=True)
        return [part.view(kind).reshape(shape) for part, (shape, kind) in parts]
