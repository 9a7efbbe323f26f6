"""SQLite's write-ahead log beside a run's database: whether commits in it are lost.

SQLite reads a log up to the first frame whose checksum is wrong: that is where a process died that
was writing. A damaged bit looks alike, and all commits behind it are gone without a word.
Source: "WAL-mode File Format" of SQLite's documentation.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HEADER, _FRAME = 32, 24
#: First four bytes, and the order of bytes that checksums are taken in.
_MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}
_MASK = 0xFFFFFFFF


class _Frame(NamedTuple):
    salts: bytes
    commits: bool
    #: Whether what it holds follows on all frames before it.
    follows: bool


def write_back(connection: sqlite3.Connection) -> None:
    """Write the log into the database and empty it, unless somebody is reading right now.

    So no more than one commit at a time depends on the log.
    """
    (waits,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout=0")
    try:
        with suppress(sqlite3.OperationalError):  # in use: the next commit does it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.execute(f"PRAGMA busy_timeout={waits}")


def lost_commits(database: Path) -> int:
    """Return the number of commits in the log beside `database` that SQLite will not read.

    A last commit that power failed in counts, too: it was never said to be done.
    """
    log = database.with_name(database.name + "-wal")
    if not log.is_file() or log.stat().st_size < _HEADER + _FRAME:
        return 0
    with log.open("rb") as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER:  # a run that goes on has just emptied it
            return 0
        words = np.frombuffer(header, ">u4")
        order, page = _MAGIC.get(int(words[0])), int(words[2])
        whole = order is not None and _checksum(header[:24], (0, 0), order) == tuple(words[6:])
        if not 512 <= page <= 2**16 or page & (page - 1):
            return 1  # of a damaged header nobody knows how many
        salts, lost, reads, chained = header[16:24], 0, whole, True
        frames = _frames(file, page, order or "<u4", (int(words[6]), int(words[7])))
        for i, frame in enumerate(frames):
            if i == 0 and not whole:
                salts = frame.salts
            mine = frame.salts == salts
            reads = reads and mine and frame.follows
            # Frames of an older log may stand behind this one's, and follow each other.
            chained = chained and frame.follows
            lost += not reads and frame.commits and (mine or chained)
    return lost


def _frames(
    file: BufferedReader, page: int, order: str, before: tuple[int, int]
) -> Iterator[_Frame]:
    """Yield whole frames, `before` the checksum of what stands in front of them."""
    while len(frame := file.read(_FRAME + page)) == _FRAME + page:
        computed = _checksum(frame[:8] + frame[_FRAME:], before, order)
        kept = np.frombuffer(frame[16:24], ">u4")
        before = int(kept[0]), int(kept[1])
        yield _Frame(frame[8:16], any(frame[4:8]), computed == before)


def _checksum(content: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    """Return the log's checksum after `content`: of word pairs, ``s += x + t; t += y + s``."""
    words = np.frombuffer(content, order).astype(np.uint32)
    first, second, power = _weights(len(words))
    s, t = before
    return (
        (power[0] * s + power[1] * t + int((first * words).sum(dtype=np.uint32))) & _MASK,
        (power[1] * s + power[2] * t + int((second * words).sum(dtype=np.uint32))) & _MASK,
    )


@cache
def _weights(words: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32], tuple[int, int, int]]:
    """Return how much each word counts in both sums, and the steps' matrix [[a, b], [b, c]]."""
    first, second = np.empty(words, np.uint32), np.empty(words, np.uint32)
    a, b, c = 1, 0, 1
    for i in range(words - 2, -2, -2):
        first[i], first[i + 1] = (a + b) & _MASK, b
        second[i], second[i + 1] = (b + c) & _MASK, c
        a, b, c = (a + b) & _MASK, (a + 2 * b) & _MASK, (b + 2 * c) & _MASK
    return first, second, (a, b, c)
