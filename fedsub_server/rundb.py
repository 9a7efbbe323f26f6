"""The run's database: state, metrics and configuration of one method's run, in one SQLite file.

Everything that a round leaves behind is written in one transaction, so a run that is killed or
loses power at any moment reopens exactly at its last committed round.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from fedsub_core.data.fingerprint import fingerprint_key
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb_file import PACKAGE, connect, database_errors, note
from fedsub_server.rundb_log import lost_commits, write_back
from fedsub_server.rundb_seal import (
    Checked,
    Row,
    committed_metrics,
    metrics_checksum,
    sealed,
    transaction,
)
from fedsub_server.rundb_state import StateRows

log = logging.getLogger("fedsub")
State = dict[str, dict[str, Tensor]]
#: In `meta`: how many clients were forgotten.
_FORGOTTEN = "forgotten"
#: In `meta`: the most memory that the run's processes held, bytes.
_MEMORY = "peak_memory"
_BACKEND = "backend"
#: In `meta`: seconds of the method's own server half, and of how many rounds.
_SERVER = "server_seconds"


class RunDatabase:
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

    Raises
    ------
    ConfigError
        If `config` is nested or holds something that JSON cannot.
    RunError
        If the file is missing, corrupt, of another schema version or of another configuration.
    """

    def __init__(
        self, path: Path, config: Mapping[str, object] | None = None, package: str = ""
    ) -> None:
        self.path = path
        lost = lost_commits(path)
        self._connection = connect(path, config, package)
        self._check = Checked(self._connection)
        self._state = StateRows(self._connection)
        self._forgotten = self.forgotten()
        self._since = time.monotonic()
        if lost:
            log.warning(
                "%s-wal is damaged, or power failed while it was written: commits in it cannot be "
                "read (at least %d). What is there ends with round %d",
                path,
                lost,
                self.last_round(),
            )

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

        Raises
        ------
        RunError
            If the round was committed before, a row is of another round or comes twice, a client
            was forgotten meanwhile, or the file cannot be written. Whatever is raised, the
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
            rows = sorted(
                (self._columns(row, last, round) for row in metrics), key=lambda row: row[:4]
            )
            self._connection.execute(
                "INSERT INTO rounds VALUES (?, ?, ?)",
                (round, time.monotonic() - self._since, metrics_checksum(iter(rows))),
            )
            self._state.replace(state)
            self._connection.executemany(
                "INSERT INTO metrics (round, client, metric, class, value) VALUES (?, ?, ?, ?, ?)",
                rows,
            )
            if server[1]:
                before = self._server_seconds()
                both = f"{before[0] + server[0]:.6f} {before[1] + server[1]}"
                self._connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_SERVER, both)
                )
        write_back(self._connection)
        self._since = time.monotonic()

    def clients(self) -> list[str]:
        """Return the clients that have metrics, ascending."""
        with self._reading(metrics=True):
            found = self._connection.execute("SELECT DISTINCT client FROM metrics ORDER BY client")
            return [client for (client,) in found if client]

    def forgotten(self) -> int:
        """Return how many clients were forgotten."""
        return int(self.meta().get(_FORGOTTEN, 0))

    def forget(
        self, client: str, alias: str, round: int, state: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        """Put `state` in that of `round`'s place, and `alias` in the client's, in one transaction.

        Also of what the client was, nothing is left in the file.

        Raises
        ------
        RunError
            If it cannot be written, or a round was committed since; then the database is as it was.
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
                self._connection.execute(
                    "UPDATE metrics SET client = ? WHERE client = ?", (alias, client)
                )
                now = [(crc, one) for one, _, crc in committed_metrics(self._connection)]
                self._connection.executemany(
                    "UPDATE rounds SET metrics_crc = ? WHERE round = ?", now
                )
                meta = self.meta()
                config = json.loads(meta["config"])
                config.pop(fingerprint_key(client), None)
                self._connection.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [
                        ("config", json.dumps(config, sort_keys=True)),
                        (_FORGOTTEN, str(self._forgotten + 1)),
                    ],
                )
            self._forgotten += 1
            # What was deleted still stands in free pages and in the log.
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

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

    def last_round(self) -> int:
        """Return the last committed round, 0 if there is none."""
        with self._reading():
            return self._last_round() or 0

    def metrics(self, metric: str | None = None) -> Iterator[MetricRow]:
        """Iterate over all metrics, or those called `metric`, by round, client, name and class."""
        with self._reading(metrics=True):
            pass  # not for as long as somebody reads on: a run could not write its log back
        with database_errors(self.path, "read"):
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

    def seconds(self) -> float:
        """Return the time all rounds took, s: each from the commit before it, or the start."""
        return sum(self.seconds_by_round().values(), 0.0)

    def seconds_by_round(self) -> dict[int, float]:
        """Return each commit's time, s, by the last round in it, ascending."""
        with self._reading():
            found = self._connection.execute("SELECT round, seconds FROM rounds ORDER BY round")
            return dict(found.fetchall())

    def server_seconds(self) -> float | None:
        """Return what the method's own server half took in a round, s, on average.

        None where it is not known, as of a run of an older version.
        """
        seconds, rounds = self._server_seconds()
        return seconds / rounds if rounds else None

    def _server_seconds(self) -> tuple[float, int]:
        seconds, rounds = self.meta().get(_SERVER, "0 0").split()
        return float(seconds), int(rounds)

    def note_memory(self, peak: int) -> None:
        """Keep the most memory that the process held, bytes, if it is more than was kept."""
        most = max(peak, self.memory() or 0)
        with self._writing():
            self._connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MEMORY, str(most))
            )

    def memory(self) -> int | None:
        """Return the most memory that the run's processes held, bytes; None where not known."""
        kept = self.meta().get(_MEMORY)
        return None if kept is None else int(kept)

    def note_backend(self, backend: str) -> None:
        """Keep who trains, kernels or PyTorch, where it was nobody or another before."""
        with database_errors(self.path, "written"):
            note(self._connection, _BACKEND, backend)

    def backend(self) -> str | None:
        """Return who trained, one after another with commas; None where it is not known."""
        return self.meta().get(_BACKEND)

    def trained_by(self) -> str:
        """Return the version and code by which the run was begun, and code by which it went on.

        So too of the package that offers its method, if there is one.
        """
        meta = self.meta()
        package = f" with {meta[PACKAGE]}" if PACKAGE in meta else ""
        return f"{meta['version']} (code {meta['code']}){package}"

    def meta(self) -> dict[str, str]:
        """Return ``schema``, package ``version``, ``config`` (JSON) of the run's start, ``run``.

        ``run`` is a name drawn for the run, by which devices tell it from others. ``code`` has the
        digests of the code that trained it, in order, with commas between; ``package`` the same of
        the package that offers its method. ``forgotten``, ``server_seconds`` and ``peak_memory``
        are there once there is something to count. ``seal`` is :mod:`fedsub_server.rundb_seal`'s.
        """
        with self._reading():
            return dict(self._connection.execute("SELECT key, value FROM meta").fetchall())

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self._connection.close()

    def __enter__(self) -> RunDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _reading(self, metrics: bool = False) -> Iterator[None]:
        """Read one moment of what was found to be as it was written, `metrics` only if wanted."""
        with database_errors(self.path, "read"):
            if self._connection.in_transaction:
                self._check(metrics)
                yield
            else:
                with transaction(self._connection, "DEFERRED"):
                    self._check(metrics)
                    yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write in one transaction, on top of what was found to be as it was written."""
        try:
            with database_errors(self.path, "written"), sealed(self._connection):
                self._check()
                yield
        except BaseException:
            self._state.forget()  # what was written is not there
            raise

    def _last_round(self) -> int | None:
        row = self._connection.execute("SELECT max(round) FROM rounds").fetchone()
        return None if row[0] is None else int(row[0])

    def _columns(self, row: MetricRow, last: int | None, round: int) -> Row:
        """Return a metric as SQLite gives it back: nan as None, and no zero below 0."""
        first = 0 if last is None else last + 1
        if not first <= row.round <= round or (row.label is not None and row.label < 0):
            raise RunError(
                f"{self.path}: got {row} in the commit of round {round}, expected rounds {first} "
                f"to {round} and None or a class from 0 as label; commit a round's rows once"
            )
        label = -1 if row.label is None else row.label
        value = None if math.isnan(row.value) else float(row.value) + 0.0
        return row.round, row.client, row.metric, label, value
