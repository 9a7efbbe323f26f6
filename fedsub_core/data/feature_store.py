"""A store of features: beyond a bound they lie in a file instead of memory."""

from __future__ import annotations

from tempfile import gettempdir

from fedsub_core.data.samples import Samples
from fedsub_core.errors import DataError
from fedsub_core.mapped_file import MappedFile

#: Bytes of features that are kept in memory as they are.
MEMORY = 256 * 2**20


class FeatureStore:
    """Arrays in the order in which they come; more than `memory` bytes of them go into a file.

    The file has no name, is gone with the process, and is mapped: what is read of it takes memory
    only until something else needs that.

    Raises DataError where the file cannot be written.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory, self._bytes = memory, 0
        self._held: list[Samples] = []
        self._file: MappedFile | None = None

    def put(self, array: Samples) -> None:
        """Put an array beside the others."""
        self._held.append(array)
        self._bytes += array.nbytes
        if self._bytes <= self._memory:
            return
        try:
            self._file = self._file or MappedFile()
            self._file.put(self._held)
        except OSError as error:
            raise DataError(
                f"{gettempdir()}: features of more than {self._memory / 2**20:g} MiB cannot be "
                f"written there ({error}). Make room, or name another folder in TMPDIR."
            ) from error
        self._held.clear()

    def arrays(self) -> list[Samples]:
        """Take all arrays, in their order, out of the store; they may be changed."""
        return list(self._held) if self._file is None else self._file.arrays()
