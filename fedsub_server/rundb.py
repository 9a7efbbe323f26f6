"""The run's database: state, metrics and configuration of one method's run, in one SQLite file.

Everything that a round leaves behind is written in one transaction, so a run that is killed or
loses power at any moment reopens exactly at its last committed round.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from fedsub_core.data.fingerprint import fingerprint_key
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb_classes import agreed_classes
from fedsub_server.rundb_file import database_errors
from fedsub_server.rundb_log import write_back
from fedsub_server.rundb_metrics import columns
from fedsub_server.rundb_notes import FORGOTTEN, RunNotes
from fedsub_server.rundb_seal import metrics_checksum

State = dict[str, dict[str, Tensor]]


class RunDatabase(RunNotes):
    """The database of one method's run, open until :meth:`close` or the end of a ``with`` block.

    Parameters
    ----------
    path : Path
        The file. With `config` it is made if it does not exist.
    config : flat mapping of names to plain values, optional
        What must be equal for a run to be resumed; leave out what may change, such as the number
        of rounds. None opens an existing database whatever its configuration, to read results.
    package : str
        Version and code of the package that offers the method, "" of FedSub's own.

    Raises ConfigError if `config` is nested or holds something that JSON cannot. Raises RunError if
    the file is missing, corrupt, of another schema version or of another configuration.
    """

    def __init__(
        self, path: Path, config: Mapping[str, object] | None = None, package: str = ""
    ) -> None:
        super().__init__(path, config, package)
        self._forgotten = self.forgotten()
        self._since = time.monotonic()

    def commit(
        self,
        round: int,
        state: Mapping[str, Mapping[str, Tensor]],
        metrics: Iterable[MetricRow],
        server: tuple[float, int] = (0.0, 0),
    ) -> None:
        """Write up to a round in one transaction: `state` replaces the last, `metrics` are added.

        Parameters
        ----------
        round : int
            Greater than the last committed round; 0 is the state before the first round.
        state : mapping of a group's name, such as ``"client/01"``, to named tensors of any dtype
        metrics : rows of the rounds since the last commit, up to this one, each at most once for a
            round, client, class and metric
        server : seconds that the method's own server half took in these rounds, and how many these
            are, where it is known

        Raises RunError if the round was committed before, a row is of another round or comes twice,
        a client was forgotten meanwhile, or the file cannot be written. Whatever is raised, the
        database is as it was before.
        """
        with self._writing():
            if self.forgotten() != self._forgotten:
                raise RunError(
                    f"{self.path}: a client was forgotten while this run was going on; start it "
                    "again, and it goes on without that client after its last round"
                )
            last = self._last_round()
            if round < 0 or (last is not None and round <= last):
                raise RunError(
                    f"{self.path}: got round {round} to commit, expected one after {last}; go on "
                    "from the round that load() returns, and run one process per run folder"
                )
            rows = self._metrics.adding(columns(metrics, self.path, last, round))
            self._connection.execute(
                "INSERT INTO rounds VALUES (?, ?, ?)",
                (round, time.monotonic() - self._since, metrics_checksum(rows)),
            )
            self._state.replace(state)
            if server[1]:
                self._add_server_seconds(*server)
        write_back(self._connection)
        self._since = time.monotonic()

    def thin(self, whole: int, end: int) -> None:
        """Thin old metrics of a long run, some rounds at a time, in a transaction of its own.

        Parameters and rule are those of :class:`fedsub_server.rundb_thinning.Thinning`.

        Raises RunError if the file cannot be written; then it is as it was.
        """
        with self._reading():
            due = self._thinning.due(self._last_round() or 0, whole, end)
        if due:
            with self._writing():
                self._thinning(due)
            write_back(self._connection)

    def thinned(self) -> int:
        """Return the number of rounds of which metrics are left, if some were thinned; else 0."""
        with self._reading():
            return sum(r > 0 for r in self._thinning.rounds()) if self._thinning.any else 0

    def mean(self, metric: str) -> float | None:
        """Return a metric's mean over all rows from round 1 on, of bytes those thinned, too."""
        # Round 0 is the handshake and no round.
        values = [row.value for row in self.metrics(metric) if row.round > 0]
        with self._reading():
            rows, total = self._thinning.summed(metric)
        if rows:
            return (math.fsum(values) + total) / (len(values) + rows)
        return float(np.mean(values)) if values else None

    def rounds_above_0(self, metric: str) -> dict[str, list[int]]:
        """Return, by client, the rounds from 1 on in which a metric was above 0.

        Of the metrics in ``EVENTS`` of the thinning these are all, also of rounds thinned since.
        """
        rounds = defaultdict[str, set[int]](set)
        for row in self.metrics(metric):
            if row.value > 0 and row.round > 0:
                rounds[row.client].add(row.round)
        with self._reading():
            for client, gone in self._thinning.events(metric).items():
                rounds[client].update(gone)
        return {client: sorted(of) for client, of in sorted(rounds.items())}

    def clients(self) -> list[str]:
        """Return the clients that have metrics, ascending."""
        with self._reading(metrics=True):
            return self._metrics.clients()

    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes that were agreed on in the handshake, by label.

        None before the first round's end.

        Raises RunError if they are damaged.
        """
        with self._reading():
            return agreed_classes(self._connection)

    def last_rounds(self, metric: str) -> dict[str, int]:
        """Return each client's last round that has a metric of it, such as ``bytes_up_sent``."""
        with self._reading(metrics=True):
            return self._metrics.last_rounds(metric)

    def forget(
        self, client: str, alias: str, round: int, state: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        """Put `state` in that of `round`'s place, and `alias` in the client's, in one transaction.

        Also of what the client was, nothing is left in the file.

        Raises RunError if it cannot be written, or a round was committed since; then the database
        is as it was.
        """
        with database_errors(self.path, "written"):
            self._connection.execute("PRAGMA secure_delete=ON")
            with self._writing():
                self._check(metrics=True)
                if (last := self._last_round() or 0) != round:
                    raise RunError(
                        f"{self.path}: round {last} was committed meanwhile, expected the state of "
                        f"round {round} to be the last: nothing was changed. Try again"
                    )
                self._state.replace(state)
                self._metrics.rename(client, alias)
                self._thinning.rename(client, alias)
                meta = self.meta()
                config = json.loads(meta["config"])
                config.pop(fingerprint_key(client), None)
                self._connection.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [
                        ("config", json.dumps(config, sort_keys=True)),
                        (FORGOTTEN, str(self._forgotten + 1)),
                    ],
                )
            self._forgotten += 1
            self._vacuum()

    def load(self) -> tuple[int, State]:
        """Return the last committed round and its state; ``(0, {})`` if nothing was committed.

        Groups and their tensors come in the order in which they were committed.

        Raises
        ------
        RunError
            If a stored group of tensors is damaged, or the metrics of a round.
        """
        with self._reading(metrics=True):
            state = self._state.load()
            return self._last_round() or 0, state

    def metrics(self, metric: str | None = None) -> Iterator[MetricRow]:
        """Iterate over all metrics, or those called `metric`, by round, client, name and class."""
        with self._reading(metrics=True):
            pass  # not for as long as somebody reads on: a run could not write its log back
        with database_errors(self.path, "read"):
            yield from self._metrics.read(metric)

    def seconds(self) -> float:
        """Return the time all rounds took, s: each from the commit before it, or the start."""
        return sum(self.seconds_by_round().values(), 0.0)

    def seconds_by_round(self) -> dict[int, float]:
        """Return each commit's time, s, by the last round in it, ascending."""
        with self._reading():
            rows = self._connection.execute("SELECT round, seconds FROM rounds ORDER BY round")
            return dict(rows.fetchall())
