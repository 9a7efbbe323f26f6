"""The run's database: state, metrics and configuration of one method's run, in one SQLite file.

Everything a round leaves behind is written in one transaction, so that a run that is killed or
loses power at any moment reopens exactly at its last committed round.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub_core.errors import ConfigError, RunError

SCHEMA_VERSION = 1
State = dict[str, dict[str, Tensor]]

# In `metrics` the class is -1 where a metric is not per class (a primary key holds no NULL), and
# the value is NULL for nan, which SQLite cannot store.
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rounds (round INTEGER PRIMARY KEY, seconds REAL NOT NULL);
CREATE TABLE state (name TEXT PRIMARY KEY, crc INTEGER NOT NULL, tensors BLOB NOT NULL);
CREATE TABLE metrics (
    round INTEGER NOT NULL REFERENCES rounds,
    client TEXT NOT NULL,
    metric TEXT NOT NULL,
    class INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (round, client, metric, class)
) WITHOUT ROWID;
"""


class MetricRow(NamedTuple):
    """One measured number; `label` is the class it is about, None when it is not per class."""

    round: int
    client: str
    label: int | None
    metric: str
    value: float


class RunDatabase:
    """The database of one run, open until :meth:`close` (or the end of a ``with`` block).

    Parameters
    ----------
    path : Path
        The file. With `config` it is made if it does not exist.
    config : flat mapping of names to plain values, optional
        What must be equal for a run to be resumed; leave out what may change, such as the number
        of rounds. None opens an existing database whatever its configuration, to read results.

    Raises
    ------
    ConfigError
        If `config` is nested or holds something that JSON cannot.
    RunError
        If the file is missing, corrupt, of another schema version or of another configuration.
    """

    def __init__(self, path: Path, config: Mapping[str, object] | None = None) -> None:
        self.path = path
        wanted = None if config is None else _plain(config)
        if wanted is None and not path.is_file():
            raise RunError(f"{path}: there is no run here; check the run folder's name")
        try:
            self._connection = sqlite3.connect(path, timeout=10, isolation_level=None)
        except sqlite3.Error as error:
            raise RunError(
                f"{path}: the run's database cannot be opened ({error}); check that its folder "
                "exists and can be written"
            ) from error
        try:
            with self._errors("opened"):
                self._open(wanted)
        except BaseException:
            self._connection.close()
            raise
        self._since = time.monotonic()

    def _open(self, wanted: dict[str, object] | None) -> None:
        # A large page suits blobs of hundreds of kilobytes; it has to be chosen before WAL.
        self._connection.execute("PRAGMA page_size=16384")
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        with self._transaction():
            tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_schema")}
            if not tables and wanted is not None:
                self._create(wanted)
                return
        if "meta" not in tables:
            raise RunError(f"{self.path}: this is not a run's database; choose another folder")
        self._check(wanted)

    def _create(self, config: dict[str, object]) -> None:
        for statement in _SCHEMA.split(";"):
            self._connection.execute(statement)
        self._connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [
                ("schema", str(SCHEMA_VERSION)),
                ("version", _package_version()),
                ("config", json.dumps(config, sort_keys=True)),
            ],
        )

    def _check(self, wanted: dict[str, object] | None) -> None:
        meta = self.meta()
        if meta.get("schema") != str(SCHEMA_VERSION):
            raise RunError(
                f"{self.path}: the database has schema version {meta.get('schema')}, expected "
                f"{SCHEMA_VERSION}; read it with fedsub {meta.get('version')}, which wrote it, or "
                "start a new run in another folder"
            )
        damage = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
        if wanted is None:
            return
        stored = json.loads(meta["config"])
        if changed := sorted(
            key for key in stored.keys() | wanted.keys() if stored.get(key) != wanted.get(key)
        ):
            differences = ", ".join(
                f"{key} was {stored.get(key)!r} and is now {wanted.get(key)!r}" for key in changed
            )
            raise RunError(
                f"{self.path}: the run was started with another configuration: {differences}; "
                "restore these values to resume it, or start a new run in another folder"
            )

    def commit(
        self, round: int, state: Mapping[str, Mapping[str, Tensor]], metrics: Iterable[MetricRow]
    ) -> None:
        """Write a round in one transaction: its state replaces the last one, its metrics are added.

        Parameters
        ----------
        round : int
            Greater than the last committed round; 0 is the state before the first round.
        state : mapping of a group's name, such as ``"client/01"``, to named tensors of any dtype
        metrics : rows of this round

        Raises
        ------
        RunError
            If the round was committed before, a metric is of another round or given twice, or the
            file cannot be written. Whatever is raised, the database is as it was before.
        """
        with self._errors("written"), self._transaction():
            done = self._last_round()
            if round < 0 or (done is not None and round <= done):
                raise RunError(
                    f"{self.path}: got round {round} to commit, expected one after {done}; "
                    "go on from what load() returns, and run one process per run folder"
                )
            self._connection.execute(
                "INSERT INTO rounds VALUES (?, ?)", (round, time.monotonic() - self._since)
            )
            self._connection.execute("DELETE FROM state")
            for name, tensors in state.items():
                blob = _to_bytes(tensors)
                self._connection.execute(
                    "INSERT INTO state VALUES (?, ?, ?)", (name, zlib.crc32(blob), blob)
                )
            self._connection.executemany(
                "INSERT INTO metrics (round, client, class, metric, value) VALUES (?, ?, ?, ?, ?)",
                (self._checked(row, round) for row in metrics),
            )
        self._since = time.monotonic()

    def _checked(self, row: MetricRow, round: int) -> tuple[int, str, int, str, float]:
        if row.round != round or (row.label is not None and row.label < 0):
            raise RunError(
                f"{self.path}: got {row} among the metrics of round {round}, expected rows of "
                "that round whose label is None or a class from 0"
            )
        return round, row.client, -1 if row.label is None else row.label, row.metric, row.value

    def load(self) -> tuple[int, State]:
        """Return the last committed round and its state; ``(0, {})`` if nothing was committed.

        Raises
        ------
        RunError
            If a group of tensors is damaged.
        """
        with self._errors("read"), self._transaction():
            rows = self._connection.execute("SELECT name, crc, tensors FROM state ORDER BY name")
            state: State = {}
            for name, crc, blob in rows:
                if zlib.crc32(blob) != crc:
                    raise sqlite3.DatabaseError(f"the checksum of state {name!r} is wrong")
                state[name] = load_tensors(blob)
            return self._last_round() or 0, state

    def last_round(self) -> int:
        """Return the last committed round, 0 if there is none."""
        with self._errors("read"):
            return self._last_round() or 0

    def metrics(self, metric: str | None = None) -> Iterator[MetricRow]:
        """Iterate over all metrics, or those called `metric`, by round, client, name and class."""
        with self._errors("read"):
            for round, client, label, name, value in self._connection.execute(
                "SELECT round, client, class, metric, value FROM metrics "
                "WHERE ?1 IS NULL OR metric = ?1 ORDER BY round, client, metric, class",
                (metric,),
            ):
                yield MetricRow(
                    round,
                    client,
                    None if label < 0 else label,
                    name,
                    float("nan") if value is None else value,
                )

    def seconds(self) -> float:
        """Return the time all rounds took, each from the opening or commit before it."""
        with self._errors("read"):
            row = self._connection.execute("SELECT total(seconds) FROM rounds").fetchone()
        return float(row[0])

    def meta(self) -> dict[str, str]:
        """Return schema version, package version and configuration (JSON) of the run's start."""
        with self._errors("read"):
            return dict(self._connection.execute("SELECT key, value FROM meta").fetchall())

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self._connection.close()

    def __enter__(self) -> RunDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last_round(self) -> int | None:
        row = self._connection.execute("SELECT max(round) FROM rounds").fetchone()
        return None if row[0] is None else int(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # A full disk can have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn SQLite's errors into a RunError that says what to do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            remedy = "another process may be using the run, the disk may be full or read-only"
            raise RunError(f"{self.path}: cannot be {what} ({error}); {remedy}") from error
        except sqlite3.IntegrityError as error:
            raise RunError(
                f"{self.path}: cannot be {what} ({error}); give each metric once a round for a "
                "client and class"
            ) from error
        except sqlite3.DatabaseError as error:
            raise RunError(
                f"{self.path}: the database is damaged ({error}); restore it from a copy, or "
                "delete its folder and start this method's run again"
            ) from error


def _plain(config: Mapping[str, object]) -> dict[str, object]:
    """Return `config` as JSON gives it back, so that what is compared is what is stored."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            raise ConfigError(f"config key {key!r}: got a table, expected flat dotted keys")
    try:
        plain: dict[str, object] = json.loads(json.dumps(dict(config), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the run's config cannot be stored as JSON: {error}") from error
    return plain


def _package_version() -> str:
    try:
        return version("fedsub")
    except PackageNotFoundError:
        return "unknown (not installed)"


def _to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise named tensors; copies make views of a stack plain tensors of their own."""
    return save_tensors(
        {
            name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
    )
