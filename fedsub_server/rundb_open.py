"""A run's database that is open: what is read was proved, what is written is sealed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from fedsub_server.rundb_file import connect, database_errors
from fedsub_server.rundb_log import lost_commits
from fedsub_server.rundb_metrics import MetricRows
from fedsub_server.rundb_seal import Checked, sealed, transaction
from fedsub_server.rundb_state import StateRows
from fedsub_server.rundb_thinning import Thinning

log = logging.getLogger("fedsub")


class OpenDatabase:
    """The file of one method's run, open until :meth:`close` or the end of a ``with`` block.

    Parameters and errors are those of :class:`fedsub_server.rundb.RunDatabase`.
    """

    def __init__(
        self, path: Path, config: Mapping[str, object] | None = None, package: str = ""
    ) -> None:
        self.path = path
        lost = lost_commits(path)
        self._connection = connect(path, config, package)
        self._check = Checked(self._connection)
        self._state = StateRows(self._connection)
        self._metrics = MetricRows(self._connection)
        self._thinning = Thinning(self._connection)
        if lost:
            log.warning(
                "%s-wal is damaged, or power failed while it was written: commits in it cannot be "
                "read (at least %d). What is there ends with round %d",
                path,
                lost,
                self.last_round(),
            )

    def last_round(self) -> int:
        """Return the last committed round, 0 if there is none."""
        with self._reading():
            return self._last_round() or 0

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

    def __enter__(self) -> Self:
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
            self._thinning.forget()
            raise

    def _vacuum(self) -> None:
        """Overwrite what was deleted, which still stands in free pages and in the log."""
        with database_errors(self.path, "written"):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _last_round(self) -> int | None:
        row = self._connection.execute("SELECT max(round) FROM rounds").fetchone()
        return None if row[0] is None else int(row[0])
