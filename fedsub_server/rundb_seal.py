"""The seal of a run's database: checksums of all that is ever read from it, in one place.

SQLite notices a page that makes no sense, not one that makes another. So whoever reads or writes
comes through here: the seal, in `meta`, is over configuration, names, keys, order and round
numbers, and over the checksums that stand beside the tensors and the metrics.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

_KEY = "seal"
#: The table of what stays of metrics that were thinned; there is none before.
THINNED = "thinned"
_SEALED = (
    f"SELECT key, value FROM meta WHERE key != '{_KEY}' ORDER BY key",
    "SELECT round, seconds, metrics_crc FROM rounds ORDER BY round",
    "SELECT name, keys, crc FROM state ORDER BY rowid",
)
_THINNED = f"SELECT client, metric, rows, total, crc FROM {THINNED} ORDER BY client, metric"
# Rows whose text is made at once.
_CHUNK = 10_000

#: Round, client, metric, class (-1 is none) and value (NULL is nan) of a number, as they are kept.
Row = tuple[int, str, str, int, float | None]


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit what the block does, or nothing of it; ``"DEFERRED"`` only reads one moment."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk can have ended the transaction already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def sealed(connection: sqlite3.Connection) -> Iterator[None]:
    """Write in a transaction at whose end all is sealed anew."""
    with transaction(connection):
        yield
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, _seal(connection)))


def metrics_checksum(rows: Iterator[Row]) -> int:
    """Return the CRC of a commit's metrics, in the order of their key.

    Raises sqlite3.DatabaseError where something is no number or text that should be.
    """
    crc = 0
    while chunk := list(islice(rows, _CHUNK)):
        # By columns, as numbers: their texts would take three times as long as reading them.
        rounds, clients, names, classes, values = zip(*chunk, strict=True)
        try:
            texts = ["\0".join(clients).encode(), "\0".join(names).encode()]
            whole = array("q", rounds + classes)
            real = array("d", [math.nan if value is None else value for value in values])
        except (TypeError, OverflowError) as error:
            raise sqlite3.DatabaseError(f"metrics are of another kind: {error}") from error
        for part in (*texts, whole.tobytes(), real.tobytes()):
            crc = zlib.crc32(part, crc)
    return crc


def committed_metrics(connection: sqlite3.Connection) -> Iterator[tuple[int, int, int]]:
    """Yield each commit's round, the checksum of its metrics, and the one that they have now."""
    before = -1
    for round, crc in connection.execute(
        "SELECT round, metrics_crc FROM rounds ORDER BY round"
    ).fetchall():
        rows = connection.execute(
            "SELECT round, client, metric, class, value FROM metrics "
            "WHERE round > ? AND round <= ? ORDER BY round, client, metric, class",
            (before, round),
        )
        yield round, crc, metrics_checksum(rows)
        before = round


class Checked:
    """Remembers what of a database was found to be as it was written.

    Until another process has written to it, it is not looked at again.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._version: int | None = None
        self._metrics = False

    def __call__(self, metrics: bool = False) -> None:
        """Look, inside a transaction, also at all `metrics` if they are to be read.

        Raises sqlite3.DatabaseError where something is not as it was written.
        """
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            check_seal(self._connection)
            self._version, self._metrics = version, False
        if metrics and not self._metrics:
            _check_metrics(self._connection)
            self._metrics = True


def check_seal(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if anything but tensors and metrics is not as it was written."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).fetchone()
    if row != (_seal(connection),):
        raise sqlite3.DatabaseError("its configuration, rounds or names are not as written")


def _seal(connection: sqlite3.Connection) -> str:
    digest = hashlib.blake2b(digest_size=16)
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (THINNED,))
    for query in (*_SEALED, _THINNED) if there.fetchone() else _SEALED:
        digest.update(repr(connection.execute(query).fetchall()).encode())
    return digest.hexdigest()


def _check_metrics(connection: sqlite3.Connection) -> None:
    last = -1
    for round, crc, now in committed_metrics(connection):
        if now != crc:
            raise sqlite3.DatabaseError(f"the checksum of round {round}'s metrics is wrong")
        last = round
    if connection.execute("SELECT 1 FROM metrics WHERE round > ?", (last,)).fetchone():
        raise sqlite3.DatabaseError(f"there are metrics of rounds after {last}, the last one")
