"""Thinning of a long run's metrics: the newest rounds stay whole, older ones stay with gaps.

A round every two minutes would fill a disk within months. Gaps grow with age: of the rounds that
are `whole` to twice as many rounds old every fourth stays, of those up to twice as old again every
eighth, and so on. So each doubling of the age has as many rounds. What a run's tables need stays:
the first round, the best and the last tested one, everybody's newest row of each metric, and of
the rows that go the sums of bytes and the rounds of events.
"""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from fedsub_core.metric_names import ANEW, DIVERGED, LEFT_OUT
from fedsub_server.rundb_file import THINNING
from fedsub_server.rundb_seal import THINNED, metrics_checksum

#: A run is thinned that has more rounds than this many times those that stay whole.
LONG = 4
#: Rounds that one transaction thins at most, so that no round waits long for it.
AT_ONCE = 8
#: Metrics of which tables tell in which rounds they were above 0.
EVENTS = ("missing_replies", "late_replies", "refused_replies", "undone", ANEW, DIVERGED, LEFT_OUT)
#: Under this name, with no client: rounds of which only somebody's newest rows are left.
_SETTLED = ""

_TABLE = f"""
CREATE TABLE IF NOT EXISTS {THINNED} (
    client TEXT, metric TEXT, rows INTEGER, total REAL, rounds BLOB, crc INTEGER,
    PRIMARY KEY (client, metric)
) WITHOUT ROWID
"""
_KEEP = f"INSERT OR REPLACE INTO {THINNED} VALUES (?, ?, ?, ?, ?, ?)"
# A row goes if its client has a newer one of the same metric and class.
_GONE = """
INSERT INTO temp.gone SELECT round, client, metric, class, value FROM metrics m WHERE round = ?
AND EXISTS (
    SELECT 1 FROM temp.newer p CROSS JOIN metrics n ON n.round = p.round
    AND n.client = m.client AND n.metric = m.metric AND n.class = m.class
)
"""


class Thinning:
    """The thinning of one database; whoever calls is in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.forget()

    def forget(self) -> None:
        """Read all again the next time; call it if a transaction is rolled back."""
        #: By round, how many people were tested in it, and their mean macro F1.
        self._tested: dict[int, tuple[int, float]] = {}
        self._known: set[int] | None = None

    def due(self, last: int, whole: int, end: int) -> list[int]:
        """Return the rounds to thin now, ascending.

        Parameters
        ----------
        whole : how many of the newest rounds stay whole; 0: all.
        end : the round that the run is to end with: what a table at its end looks back at stays.
        """
        if not whole or last <= LONG * whole:
            return []
        settled = self._settled()
        there = [round for round in self.rounds() if round > 0 and round not in settled]
        old = [round for round in there[1:] if last - round >= whole]
        groups = defaultdict[tuple[int, int], list[int]](list)
        for round in old:
            stride = 4 << int(math.log2((last - round) / whole))
            groups[stride, round // stride].append(round)
        kept = {max(group, key=lambda r: (self._people(r) > 0, r)) for group in groups.values()}
        tested = [round for round in there if self._people(round)]
        # Convergence is read from the loss after three quarters of the rounds.
        kept |= set([r for r in tested if r <= 0.75 * end][-1:] + tested[:1] + tested[-1:])
        due = [round for round in old if round not in kept]
        least = self._people(tested[-1]) / 2 if tested else 0
        best = [r for r in due if self._people(r) and self._people(r) >= least]
        return sorted(set(due) - {max(best, key=lambda r: self._tested[r][1], default=0)})[:AT_ONCE]

    def __call__(self, rounds: Sequence[int]) -> None:
        """Remove what can go of `rounds`, and keep the sums and events that tables need of it."""
        execute = self._connection.execute
        execute(_TABLE)
        execute(
            "UPDATE meta SET value = :now WHERE key = 'schema' AND value < :now",
            {"now": str(THINNING)},
        )
        execute("CREATE TEMP TABLE IF NOT EXISTS newer (round INTEGER PRIMARY KEY)")
        execute("CREATE TEMP TABLE IF NOT EXISTS gone (round, client, metric, class, value)")
        settled = self._settled()
        for round in rounds:
            execute("DELETE FROM temp.newer")
            newer = [(r,) for r in self.rounds(round) if r not in settled]
            self._connection.executemany("INSERT INTO temp.newer VALUES (?)", newer)
            execute("DELETE FROM temp.gone")
            execute(_GONE, (round,))
            self._keep_sums()
            self._keep_events()
            execute(
                "DELETE FROM metrics WHERE round = ? AND (client, metric, class) IN "
                "(SELECT client, metric, class FROM temp.gone)",
                (round,),
            )
            self._tested[round] = 0, math.nan
            settled.add(round)
            self._merge_commit(round)
        settled.intersection_update(self.rounds())
        self._keep_rounds("", _SETTLED, sorted(settled))

    def rounds(self, after: int = -1) -> Iterator[int]:
        """Yield the rounds that have metrics, ascending: one look at the index for each."""
        query = "SELECT min(round) FROM metrics WHERE round > ?"
        while (row := self._connection.execute(query, (after,)).fetchone()[0]) is not None:
            yield (after := int(row))

    def summed(self, metric: str) -> tuple[int, float]:
        """Return the number of rows of a metric of bytes that went, and their sum."""
        if not self.any:
            return 0, 0.0
        query = f"SELECT coalesce(sum(rows), 0), coalesce(sum(total), 0) FROM {THINNED}"
        rows, total = self._connection.execute(f"{query} WHERE metric = ?", (metric,)).fetchone()
        return int(rows), float(total)

    def events(self, metric: str) -> dict[str, list[int]]:
        """Return, by client, the rounds that went in which an event's metric was above 0.

        Raises sqlite3.DatabaseError if they are damaged.
        """
        query = f"SELECT client, rounds, crc FROM {THINNED} WHERE metric = ? ORDER BY client"
        found = self._connection.execute(query, (metric,)) if self.any else ()
        return {client: _unpacked(blob, crc) for client, blob, crc in found if blob}

    def rename(self, client: str, alias: str) -> None:
        """Put `alias` in a client's place."""
        if self.any:
            query = f"UPDATE {THINNED} SET client = ? WHERE client = ?"
            self._connection.execute(query, (alias, client))

    @property
    def any(self) -> bool:
        """Whether anything was ever thinned."""
        query = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return self._connection.execute(query, (THINNED,)).fetchone() is not None

    def _settled(self) -> set[int]:
        """Return the rounds of which only somebody's newest rows are left."""
        if self._known is None:
            self._known = set(self.events(_SETTLED).get("", []))
        return self._known

    def _people(self, round: int) -> int:
        if round not in self._tested:
            n, mean = self._connection.execute(
                "SELECT count(value), avg(iif(metric = 'mae', -value, value)) FROM metrics "
                "WHERE round = ? AND metric IN ('macro_f1', 'mae') AND class = -1",
                (round,),
            ).fetchone()
            self._tested[round] = int(n), math.nan if mean is None else float(mean)
        return self._tested[round][0]

    def _keep_sums(self) -> None:
        """Add up the bytes of the rows that go; those of the handshake never do."""
        for client, metric, rows, total in self._connection.execute(
            "SELECT client, metric, count(*), sum(value) FROM temp.gone "
            "WHERE substr(metric, 1, 6) = 'bytes_' GROUP BY client, metric"
        ).fetchall():
            before = self._connection.execute(
                f"SELECT rows, total FROM {THINNED} WHERE client = ? AND metric = ?",
                (client, metric),
            ).fetchone() or (0, 0.0)
            kept = (before[0] + rows, before[1] + total)
            self._connection.execute(_KEEP, (client, metric, *kept, None, 0))

    def _keep_events(self) -> None:
        marks = ", ".join("?" * len(EVENTS))
        for client, metric, round in self._connection.execute(
            f"SELECT DISTINCT client, metric, round FROM temp.gone WHERE value > 0 AND metric IN "
            f"({marks})",
            EVENTS,
        ).fetchall():
            query = f"SELECT rounds, crc FROM {THINNED} WHERE client = ? AND metric = ?"
            kept = self._connection.execute(query, (client, metric)).fetchone()
            before = [] if kept is None else _unpacked(*kept)
            self._keep_rounds(client, metric, sorted({*before, round}))

    def _keep_rounds(self, client: str, metric: str, rounds: Sequence[int]) -> None:
        steps = np.diff(np.array(rounds, np.int64), prepend=0).astype("<i4")
        blob = zlib.compress(steps.tobytes())
        self._connection.execute(_KEEP, (client, metric, 0, 0.0, blob, zlib.crc32(blob)))

    def _merge_commit(self, round: int) -> None:
        """Let the next commit count for the one of `round`, unless it holds other rounds."""
        execute = self._connection.execute
        query = "SELECT round, seconds FROM rounds WHERE round >= ? ORDER BY round LIMIT 2"
        (commit, seconds), *after = execute(query, (round,)).fetchall()
        before = execute("SELECT max(round) FROM rounds WHERE round < ?", (commit,)).fetchone()[0]
        first = -1 if before is None else before
        settled = self._settled()
        others = (r for r in self.rounds(first) if r not in settled)
        if after and next(others, commit + 1) > commit:
            execute("DELETE FROM rounds WHERE round = ?", (commit,))
            commit, seconds = after[0][0], after[0][1] + seconds
        rows = execute(
            "SELECT round, client, metric, class, value FROM metrics WHERE round > ? AND "
            "round <= ? ORDER BY round, client, metric, class",
            (first, commit),
        )
        execute(
            "UPDATE rounds SET seconds = ?, metrics_crc = ? WHERE round = ?",
            (seconds, metrics_checksum(rows), commit),
        )


def _unpacked(blob: bytes, crc: int) -> list[int]:
    if zlib.crc32(blob) != crc:
        raise sqlite3.DatabaseError("the checksum of rounds that were thinned is wrong")
    rounds: list[int] = np.frombuffer(zlib.decompress(blob), "<i4").cumsum().tolist()
    return rounds
