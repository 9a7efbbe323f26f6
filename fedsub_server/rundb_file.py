"""The SQLite file under a run's database: making it, opening it, and its errors in words."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fedsub_core.config.run_config import default
from fedsub_core.errors import ConfigError, RunError, cut
from fedsub_core.files import PRIVATE
from fedsub_core.sealing import NotOpened
from fedsub_core.version import VERSION, code_digest
from fedsub_server.resuming import OLDER_DEFAULTS, differences
from fedsub_server.rundb_log import write_back
from fedsub_server.rundb_seal import check_seal, sealed, transaction

log = logging.getLogger("fedsub")
#: Of a new file, of one with thinned metrics, of one with tensors that stand once for several
#: people, of one with tensors in pieces, and all that are read. An older release would read wrong
#: means in the second.
SCHEMA_VERSION, THINNING, SHARING, PIECES = 3, 4, 5, 6
SCHEMA_VERSIONS = tuple(map(str, (SCHEMA_VERSION, THINNING, SHARING, PIECES)))
#: Where in `meta` the package stands that offers the method, if it is none of FedSub's own.
PACKAGE = "package"
# Marks the file as ours in SQLite's header ("fsub"), so that no other database is ever touched.
APPLICATION_ID = 0x66737562

# In `metrics` the class is -1 where a metric is not per class (a primary key holds no NULL), and
# the value is NULL for nan, which SQLite cannot store.
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, seconds REAL NOT NULL, metrics_crc INTEGER NOT NULL
);
CREATE TABLE state (
    name TEXT PRIMARY KEY, keys TEXT NOT NULL, crc INTEGER NOT NULL, tensors BLOB NOT NULL
);
CREATE TABLE metrics (
    round INTEGER NOT NULL,
    client TEXT NOT NULL,
    metric TEXT NOT NULL,
    class INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (round, client, metric, class)
) WITHOUT ROWID
"""


def connect(
    path: Path, config: Mapping[str, object] | None, package: str = ""
) -> sqlite3.Connection:
    """Open the database at `path`, or make it where there is none and `config` is given.

    `package` is version and code of the package that offers its method, "" of FedSub's own.

    Raises ConfigError if `config` is nested or holds something that JSON cannot. Raises RunError if
    the file is missing, corrupt, of another schema version or of another configuration.
    """
    wanted = None if config is None else _plain(config)
    if wanted is None and not path.is_file():
        raise RunError(f"{path}: there is no run's database here; check the run folder's name")
    with database_errors(path, "opened"):
        if wanted is not None:
            with suppress(OSError):  # SQLite says it better; its -wal and -shm get the file's mode
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
        connection = sqlite3.connect(path, timeout=10, isolation_level=None)
        try:
            _open(connection, path, wanted)
            if wanted is not None:
                note(connection, "code", code_digest())
                if package:
                    note(connection, PACKAGE, package)
        except BaseException:
            connection.close()
            raise
    return connection


def _open(connection: sqlite3.Connection, path: Path, wanted: dict[str, object] | None) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # With WAL, FULL syncs the log in every commit: a committed round survives power loss.
    connection.execute("PRAGMA synchronous=FULL")
    if application == 0 and tables == 0 and wanted is not None:
        _create(connection, wanted)
    elif application != APPLICATION_ID:
        raise RunError(f"{path}: got a file that is no run's database; choose another run folder")
    else:
        _check(connection, path, wanted)


def _create(connection: sqlite3.Connection, config: dict[str, object]) -> None:
    # A large page suits blobs of hundreds of kilobytes; it has to be chosen before WAL.
    connection.execute("PRAGMA page_size=16384")
    connection.execute("PRAGMA journal_mode=WAL")
    with sealed(connection):
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [
                ("schema", str(SCHEMA_VERSION)),
                ("version", VERSION),
                ("code", code_digest()),
                ("config", json.dumps(config, sort_keys=True)),
                ("run", uuid.uuid4().hex),
            ],
        )
    write_back(connection)


def _check(connection: sqlite3.Connection, path: Path, wanted: dict[str, object] | None) -> None:
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    if meta.get("schema") not in SCHEMA_VERSIONS:
        raise RunError(
            f"{path}: got a database of schema version {meta.get('schema')}, expected "
            f"{' or '.join(SCHEMA_VERSIONS)}; use fedsub {meta.get('version')}, which wrote it, or "
            "start a new run in another folder"
        )
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise sqlite3.DatabaseError(damage)
    with transaction(connection, "DEFERRED"):
        check_seal(connection)
    stored = json.loads(meta["config"])
    # What a release of before had no key for, it did as the key's default says.
    usual = {k: v for k, v in (wanted or {}).items() if v == default(k, ...)}
    moved = {k: v for k, v in usual.items() if v != stored.get(k) == OLDER_DEFAULTS.get(k, ...)}
    for key, value in moved.items():
        was = stored[key]
        log.warning("%s: %s was %s by default, and is %s from now on", path, key, was, value)
    new = {k: v for k, v in usual.items() if k not in stored} | moved
    stored |= new
    if wanted is not None and (different := differences(stored, wanted)):
        raise RunError(
            f"{path}: the run was started with another configuration or other data: "
            f"{', '.join(different)}; restore these to resume it, or start a new run in another "
            "folder"
        )
    if new:
        # Kept, for a later release may have another default.
        with sealed(connection):
            said = json.dumps(stored, sort_keys=True)
            connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (said,))


def note(connection: sqlite3.Connection, key: str, now: str) -> None:
    """Keep by what the run goes on, such as its code, where it was begun or went on by another."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    before = row[0].split(", ") if row else []
    if before[-1:] != [now]:
        with sealed(connection):
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, ", ".join([*before, now]))
            )


@contextmanager
def database_errors(path: Path, action: str) -> Iterator[None]:
    """Turn SQLite's errors into a RunError that says what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except NotOpened as error:
        raise type(error)(f"{path}: state {error}") from error
    except sqlite3.OperationalError as error:
        # What SQLite or Python do not understand of fixed queries is damage, too.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR:
            raise _damaged(path, error) from error
        raise RunError(
            f"{path}: the database cannot be {action} ({error}); check that its folder exists and "
            "can be written, that the disk is not full and that no other process uses the run"
        ) from error
    except sqlite3.IntegrityError as error:
        raise RunError(
            f"{path}: the database cannot be {action} ({error}); expected each metric of a client "
            "and class once in a round"
        ) from error
    # An error of SQLite's may quote what is no text any more.
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(
        f"{path}: the database is damaged ({cut(error)}); restore a copy of it, or delete it with "
        "its -wal and -shm files and run this method again"
    )


def _plain(config: Mapping[str, object]) -> dict[str, object]:
    """Return `config` as JSON gives it back, so that what is compared is what is stored."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            raise ConfigError(
                f"config of a run: {key!r} is a table, expected a plain value; flatten it to "
                "keys with dots"
            )
    try:
        plain: dict[str, object] = json.loads(json.dumps(dict(config), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"config of a run: got a value that JSON cannot hold ({error}), expected text, finite "
            "numbers, booleans or lists of them"
        ) from error
    return plain
