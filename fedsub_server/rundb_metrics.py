"""The metrics in a run's database: a row for each number of a round, client, class and name."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

from fedsub_core.errors import RunError
from fedsub_core.metric_names import PROTOTYPE_X, PROTOTYPE_Y
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb_seal import Row, committed_metrics

#: Rows that are added at once.
_CHUNK = 10_000


class MetricRows:
    """The table ``metrics`` of a connection; whoever calls is in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def adding(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Add a commit's rows, as :func:`columns` gives them, and yield each."""
        while some := list(islice(rows, _CHUNK)):
            self._connection.executemany(
                "INSERT INTO metrics (round, client, metric, class, value) VALUES (?, ?, ?, ?, ?)",
                some,
            )
            yield from some

    def clients(self) -> list[str]:
        """Return the clients that have metrics, ascending."""
        rows = self._connection.execute("SELECT DISTINCT client FROM metrics ORDER BY client")
        return [client for (client,) in rows if client]

    def last_rounds(self, metric: str) -> dict[str, int]:
        """Return each client's last round that has this metric of it."""
        rows = self._connection.execute(
            "SELECT client, max(round) FROM metrics WHERE metric = ? AND client != '' "
            "GROUP BY client",
            (metric,),
        )
        return dict(rows.fetchall())

    def read(self, metric: str | None) -> Iterator[MetricRow]:
        """Iterate over all metrics, or those called `metric`, by round, client, name and class."""
        for round, client, name, label, value in self._connection.execute(
            "SELECT round, client, metric, class, value FROM metrics "
            "WHERE :metric IS NULL OR metric = :metric ORDER BY round, client, metric, class",
            {"metric": metric},
        ):
            yield MetricRow(
                round,
                client,
                None if label < 0 else label,
                name,
                float("nan") if value is None else value,
            )

    def rename(self, client: str, alias: str) -> None:
        """Put `alias` in a client's place, and the checksums that then are right beside rounds.

        Where its prototypes lay is gone: so are they.
        """
        self._connection.execute(
            "DELETE FROM metrics WHERE client = ? AND metric IN (?, ?)",
            (client, PROTOTYPE_X, PROTOTYPE_Y),
        )
        self._connection.execute("UPDATE metrics SET client = ? WHERE client = ?", (alias, client))
        now = [(crc, one) for one, _, crc in committed_metrics(self._connection)]
        self._connection.executemany("UPDATE rounds SET metrics_crc = ? WHERE round = ?", now)


def columns(
    metrics: Iterable[MetricRow], path: Path, last: int | None, round: int
) -> Iterator[Row]:
    """Yield metrics as SQLite gives them back, in the order of their key, one person's at a time.

    They have nan as None, and no zero below 0.

    Parameters
    ----------
    path : of the database, which messages begin with.
    last, round : the last committed round, None before the first; and the one to commit.

    Raises RunError if a row is of none of the rounds between, or its class is below 0.
    """
    ordered = sorted(metrics, key=attrgetter("client"))
    ordered.sort(key=attrgetter("round"))
    for _, own in groupby(ordered, attrgetter("round", "client")):
        yield from sorted((_row(one, path, last, round) for one in own), key=lambda row: row[:4])


def _row(row: MetricRow, path: Path, last: int | None, round: int) -> Row:
    first = 0 if last is None else last + 1
    if not first <= row.round <= round or (row.label is not None and row.label < 0):
        raise RunError(
            f"{path}: got {row} in the commit of round {round}, expected rounds {first} "
            f"to {round} and None or a class from 0 as label; commit a round's rows once"
        )
    label = -1 if row.label is None else row.label
    value = None if math.isnan(row.value) else float(row.value) + 0.0
    return row.round, row.client, row.metric, label, value
