"""The durable state of a service: a SQLite file, with one transaction for each change."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedsub.status.reading import SERVICE_FILE
from fedsub_core.errors import RunError
from fedsub_core.files import private

#: Of a service's folder: its state, the app that it submits, the run's folder, Flower's, and the
#: lock of who serves it.
STATE_FILE, APP, RUN, FLOWER, LOCK_FILE = SERVICE_FILE, "app", "run", "flower", "serve.lock"
VERSION = 1
_SCHEMA = (
    "create table service (name text primary key, value text not null) strict",
    "create table samples (client text primary key, count integer not null) strict",
    """create table starts (number integer primary key, begun real not null, ended real not null,
    rounds integer not null, tries integer not null) strict""",
    """create table tokens (number integer primary key, hash text not null unique, name text not
    null unique, role text not null, made text not null, until text not null) strict""",
    """create table acts (number integer primary key, at text not null, who text not null,
    role text not null, act text not null, arguments text not null, outcome text not null,
    seal text not null) strict""",
    """create trigger acts_stay before update on acts
    begin select raise(abort, 'acts are only added'); end""",
    """create trigger acts_remain before delete on acts
    begin select raise(abort, 'acts are only added'); end""",
)


@dataclass(frozen=True)
class Settings:
    """What an operator decides.

    Parameters
    ----------
    when : the schedule, as it was written.
    each : rounds that a start trains.
    superlink, ca : address and authority of the SuperLink's port for runs.
    keys : of the run, which were set since the app was written.
    """

    when: str
    each: int
    superlink: str
    ca: str
    keys: Mapping[str, Any]


@dataclass(frozen=True)
class ServiceState:
    """Where a service stands; all times are seconds since 1970, and 0 is never.

    Parameters
    ----------
    created : when it was made.
    paused : whether no round may begin.
    stop : whether the one that goes on is to be stopped, too.
    begun : when the last start of rounds began.
    checked : when devices were asked last whether they have new samples.
    target : rounds in all that the start is to reach; 0: none is under way.
    checks : whether that start only asks devices.
    run : Flower's number of it; 0: it is not known that it was submitted.
    submitted : when it was, or was to be.
    tries : how often.
    failures : of these, in a row.
    failed_at, failure : when the last one failed, and why.
    why, next_at : what it waits for, and until when if that is known.
    """

    created: float = 0.0
    paused: bool = False
    stop: bool = False
    begun: float = 0.0
    checked: float = 0.0
    target: int = 0
    checks: bool = False
    run: int = 0
    submitted: float = 0.0
    tries: int = 0
    failures: int = 0
    failed_at: float = 0.0
    failure: str = ""
    why: str = ""
    next_at: float = 0.0


class ServiceFile:
    """The file of a service's state; each change is one transaction.

    Raises RunError if there is none in the folder, or it is of another release.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.path = self.folder / STATE_FILE
        if not self.path.is_file():
            raise RunError(
                f"{folder}: got no {STATE_FILE} in it, expected a service's folder; make one with "
                "`fedsub serve new`"
            )
        with self._errors():
            self.connection = _connect(self.path)
            (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            self.connection.close()
            raise RunError(f"{self.path}: got version {version} of its form, expected {VERSION}")

    @classmethod
    def make(cls, folder: Path, settings: Settings) -> ServiceFile:
        """Make the file of a new service."""
        path = folder / STATE_FILE
        with open(path, "xb", opener=private):
            pass
        connection = _connect(path)
        connection.execute("BEGIN IMMEDIATE")
        for table in _SCHEMA:
            connection.execute(table)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        state = asdict(settings) | asdict(ServiceState(created=time.time()))
        _put(connection, state)
        connection.execute("COMMIT")
        connection.close()
        return cls(folder)

    @property
    def settings(self) -> Settings:
        """What the operator decided last."""
        return Settings(**self._values(Settings))

    @property
    def state(self) -> ServiceState:
        """Where the service stands."""
        return ServiceState(**self._values(ServiceState))

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Commit what the block does, or nothing of it."""
        with self._errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def put(self, **values: Any) -> None:
        """Change settings or the state; inside of :meth:`change` as a part of it."""
        if self.connection.in_transaction:
            _put(self.connection, values)
            return
        with self.change() as connection:
            _put(connection, values)

    def end_start(self, now: float, samples: Mapping[str, int]) -> None:
        """Note that a start has reached its target, and how many samples each person had."""
        with self.change() as connection:
            state = self.state
            if state.checks:
                self.put(checked=now)
            else:
                row = state.begun, now, state.target, state.tries
                names = "begun, ended, rounds, tries"
                connection.execute(f"insert into starts ({names}) values (?, ?, ?, ?)", row)
                if samples:  # whom the run forgot is in it no more
                    connection.execute("delete from samples")
                connection.executemany("insert into samples values (?, ?)", samples.items())
            self.put(**_of_a_start(ServiceState()))

    def begin_start(self, now: float, target: int, checks: bool) -> None:
        """Note that a start is to be submitted, before it is."""
        begun = {} if checks else {"begun": now}
        self.put(**_of_a_start(replace(ServiceState(), target=target, checks=checks)), **begun)

    def last_starts(self, count: int) -> list[tuple[float, float, int, int]]:
        """Return begin, end, rounds in all and tries of the last starts, the newest first."""
        query = "select begun, ended, rounds, tries from starts order by number desc limit ?"
        return self.connection.execute(query, (count,)).fetchall()

    def samples(self) -> dict[str, int]:
        """Return the number of each person's samples in the last round."""
        return dict(self.connection.execute("select client, count from samples").fetchall())

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def __enter__(self) -> ServiceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _values(self, kind: type) -> dict[str, Any]:
        with self._errors():
            rows = dict(self.connection.execute("select name, value from service").fetchall())
        try:
            return {one.name: json.loads(rows[one.name]) for one in fields(kind)}
        except (KeyError, ValueError) as error:
            raise RunError(f"{self.path}: got {error}, expected the state of a service") from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RunError(f"{self.path}: got {error}, expected the state of a service") from error


def _connect(path: Path) -> sqlite3.Connection:
    # Without a journal beside it while nothing is written, so that a view of the folder that
    # cannot be written to can be read.
    uri = f"{path.resolve().as_uri()}?mode={'rw' if os.access(path, os.W_OK) else 'ro'}"
    return sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False)


def _put(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    rows = [(name, json.dumps(value)) for name, value in values.items()]
    connection.executemany("insert or replace into service values (?, ?)", rows)


def _of_a_start(state: ServiceState) -> dict[str, Any]:
    """Return the values that belong to one start."""
    names = ("target", "checks", "run", "submitted", "tries", "failures")
    return {name: getattr(state, name) for name in names}
