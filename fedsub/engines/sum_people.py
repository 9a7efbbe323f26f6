"""The people of a simulation who take part in secure sums, and the vectors that they sent last."""

from collections.abc import Iterable
from tempfile import TemporaryFile
from threading import Lock
from typing import IO

import numpy as np

from fedsub_core.secure.keys import Words
from fedsub_core.secure.participant import Participant


class SumPeople:
    """People in sums; what they keep outlives no process.

    A vector is needed once more only where a sum is made anew, so all lie in a file without a name.

    Parameters
    ----------
    clients : who takes part; ids.
    least : people of a sum at least.
    """

    def __init__(self, clients: Iterable[str] = (), least: int = 0) -> None:
        self.participants = {client: Participant(client, least) for client in clients}
        self._file: IO[bytes] | None = None
        if self.participants:
            self._file = TemporaryFile(prefix="fedsub-")  # noqa: SIM115 (as long as the run)
        #: By client: where its vector begins, how many bytes it has, and there is room for.
        self._at: dict[str, tuple[int, int, int]] = {}
        self._end, self._lock = 0, Lock()

    def keep(self, client: str, vector: Words) -> None:
        """Keep a client's vector in place of the one before."""
        assert self._file is not None
        data = vector.tobytes()
        with self._lock:
            begin, _, room = self._at.get(client, (self._end, 0, 0))
            if len(data) > room:
                begin, room = self._end, len(data)
                self._end += room
            self._at[client] = begin, len(data), room
            self._file.seek(begin)
            self._file.write(data)

    def kept(self, client: str) -> Words | None:
        """Return a client's vector; None: it sent none."""
        if client not in self._at:
            return None
        assert self._file is not None
        with self._lock:
            begin, size, _ = self._at[client]
            self._file.seek(begin)
            return np.frombuffer(self._file.read(size), np.uint32)
