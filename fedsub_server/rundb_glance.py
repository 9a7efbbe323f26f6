"""A look at a run's database from outside, which writes nothing and keeps nobody waiting.

:class:`RunDatabase` proves every byte that it reads, which of a large run takes a while. Who only
wants to know how a run is doing reads the last rounds' numbers, in one short transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from fedsub_core.errors import RunError
from fedsub_core.metric_names import ANEW, OWN_HEADS
from fedsub_core.sealing import Locked
from fedsub_server.rundb_classes import agreed_classes
from fedsub_server.rundb_file import APPLICATION_ID, SCHEMA_VERSIONS, database_errors

#: Rounds that are looked back: as many as a client rests at most.
LOOK_BACK = 32
_COUNTED = ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent", "missing_replies",
            "refused_replies", "late_replies", "slow_replies", "resting", "left_out", "capacity",
            "macro_f1", "mae", "group", ANEW, OWN_HEADS[0])  # fmt: skip

#: By client: what a metric was in a round.
ByClient = dict[str, float]


@dataclass(frozen=True)
class Glance:
    """The last rounds of a run, as its database has them.

    Parameters
    ----------
    config : of the run's start, flat.
    version : FedSub's.
    round : the last committed one, 0 for none.
    seconds : of a round, of each commit looked back at, oldest first.
    total : seconds of all rounds.
    rounds : of each round looked back at, a metric's values by client.
    clusters : of the last committed round, by class, each client's cluster of the class.
    classes : names of the classes, by label, where there are clusters.
    """

    config: Mapping[str, object]
    version: str
    round: int
    seconds: tuple[float, ...]
    total: float
    rounds: Mapping[int, Mapping[str, ByClient]] = field(default_factory=dict)
    clusters: Mapping[int, ByClient] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def last(self, metric: str) -> dict[str, int]:
        """Return each client's last round, of those looked back at, that has this metric."""
        rounds: dict[str, int] = {}
        for round, metrics in sorted(self.rounds.items()):
            rounds |= dict.fromkeys(metrics.get(metric, {}), round)
        return rounds

    def newest(self, metric: str) -> ByClient:
        """Return the metric's last value of each client, of the rounds looked back at."""
        values: ByClient = {}
        for _, metrics in sorted(self.rounds.items()):
            values |= metrics.get(metric, {})
        return values

    def sums(self, metric: str) -> ByClient:
        """Return the sum of each client's metric over the rounds looked back at."""
        totals: ByClient = {}
        for metrics in self.rounds.values():
            for client, value in metrics.get(metric, {}).items():
                totals[client] = totals.get(client, 0.0) + value
        return totals


def glance(path: Path) -> Glance:
    """Look at the database at `path`.

    Raises RunError if it is none of a run's, of another version, or cannot be read.
    """
    if not path.is_file():
        raise RunError(f"{path}: there is no run's database here; check the run folder's name")
    with database_errors(path, "read"), closing(_open(path)) as connection:
        connection.execute("BEGIN")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == tables == 0:  # it is being made
            return Glance({}, "", 0, (), 0.0)
        if application != APPLICATION_ID:
            raise RunError(f"{path}: got a file that is no run's database")
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        if meta.get("schema") not in SCHEMA_VERSIONS:
            raise RunError(
                f"{path}: got a database of schema version {meta.get('schema')}, expected "
                f"{' or '.join(SCHEMA_VERSIONS)}; use fedsub {meta.get('version')}, which wrote it"
            )
        commits = connection.execute("SELECT round, seconds FROM rounds ORDER BY round").fetchall()
        last = max((round for round, _ in commits), default=0)
        rounds: dict[int, dict[str, ByClient]] = {}
        marks = ", ".join("?" * len(_COUNTED))
        for round, client, metric, value in connection.execute(
            "SELECT round, client, metric, value FROM metrics WHERE round > ? AND client != '' "
            f"AND class = -1 AND metric IN ({marks}) AND value IS NOT NULL",
            (last - LOOK_BACK, *_COUNTED),
        ):
            rounds.setdefault(round, {}).setdefault(metric, {})[client] = value
        clusters: dict[int, ByClient] = {}
        for label, client, value in connection.execute(
            "SELECT class, client, value FROM metrics WHERE round = ? AND client != '' "
            "AND metric = 'cluster' AND value IS NOT NULL",
            (last,),
        ):
            clusters.setdefault(label, {})[client] = value
        classes: tuple[str, ...] = ()
        with suppress(Locked):  # who only looks need not have the passphrase
            classes = agreed_classes(connection) if clusters else ()
    # A commit can hold several rounds, the first none.
    paces, before = [], 0
    for round, seconds in commits:
        if round > before:
            paces.append(seconds / (round - before))
        before = round
    total = sum(seconds for _, seconds in commits)
    config = json.loads(meta.get("config", "{}"))
    version, recent = meta.get("version", ""), tuple(paces[-10:])
    return Glance(config, version, last, recent, total, rounds, clusters, classes)


def _open(path: Path) -> sqlite3.Connection:
    """Open to read. Where nobody has the file open, SQLite is not to make its index beside it."""
    log = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if log.exists() else "mode=ro&immutable=1"
    uri = f"file:{quote(str(path.resolve()))}?{how}"
    return sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)
