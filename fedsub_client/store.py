"""Where a device keeps its state: a folder on its disk, or the node's context in a simulation."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from flwr.app import ArrayRecord, RecordDict

from fedsub_client.policy import Unwilling
from fedsub_client.protections.sums_files import load_sums, save_sums
from fedsub_client.saved_state import Saved
from fedsub_client.state_files import (
    kept_name,
    kept_names,
    latest,
    load_state,
    make_room,
    read_state,
    run_digest,
)
from fedsub_core.errors import RunError
from fedsub_core.files import lock, make_folder, private, remove_drafts, replace_file
from fedsub_core.sealing import seal, unseal
from fedsub_core.wire import exchange

log = logging.getLogger("fedsub")

#: The newest state; and what says that the person left.
STATE_FILE, LEAVING_FILE = "state.safetensors", "leaving.json"
#: What earlier releases called the last state of the run before this one.
PREVIOUS_FILE = "previous.safetensors"
RECORD = "fedsub"
#: What a participant in secure sums keeps from message to message, each run's in a file of its own.
SUMS_FILE, SUMS_RECORD = "sums.json", "fedsub-sums"


def kept_as(name: str, method: str) -> str:
    """Return the name under which a method beside the run's main one ("") keeps something."""
    stem, dot, ending = name.partition(".")
    return f"{stem}-{method}{dot}{ending}" if method else name


class Store(Protocol):
    """Keeps one client's :class:`Saved`."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let no other process of this client work meanwhile."""

    def load(self) -> Saved | None:
        """Return the last saved state, None where there is none that can be used."""

    def find(self, run: str, method: str) -> Saved | None:
        """Return the last state of a run's method, wherever it stands; None where there is none."""

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Keep `saved` in place of what was saved before, all of it or nothing.

        With `new_run` another run's or method's state stands there, which is kept, too.
        """

    def load_sums(self, run: str) -> bytes | None:
        """Return a participant's secrets of a run's secure sums; None where there are none."""

    def save_sums(self, kept: bytes, run: str) -> None:
        """Keep the secrets in place of those before."""


class ContextStore:
    """In the node's context: travels with Flower's messages in a simulation, and dies with it."""

    def __init__(self, records: RecordDict, method: str = "") -> None:
        self.records, self.name = records, kept_as(RECORD, method)
        self.sums = kept_as(SUMS_RECORD, method)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Do nothing: Flower hands a context to one process at a time."""
        yield

    def load(self) -> Saved | None:
        """Return the last saved state."""
        if self.name not in self.records:
            return None
        record = cast(ArrayRecord, self.records[self.name])
        return Saved.of_bytes(record[exchange.PAYLOAD].data)

    def find(self, run: str, method: str) -> Saved | None:
        """Return the state of the run's method."""
        there = [ContextStore(self.records, other).load() for other in ("", method)]
        return latest(there, run, method)

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Keep `saved`; a context belongs to one run."""
        self.records[self.name] = exchange.pack(saved.to_bytes())

    def load_sums(self, run: str) -> bytes | None:
        """Return a participant's secrets of secure sums; a context belongs to one run."""
        if self.sums not in self.records:
            return None
        return cast(ArrayRecord, self.records[self.sums])[exchange.PAYLOAD].data

    def save_sums(self, kept: bytes, run: str) -> None:
        """Keep a participant's secrets."""
        self.records[self.sums] = exchange.pack(kept)


class FolderStore:
    """In ``<folder>/<client>/``: survives crashes, power loss, and Flower's node ids.

    Parameters
    ----------
    folder : the node config's ``state-dir``.
    client : the client's id, checked before: it becomes a folder's name.
    method : one beside the run's main method, which has files of its own; "" is the main one.
    """

    def __init__(self, folder: Path, client: str, method: str = "") -> None:
        self.folder, self.client, self.method = folder / client, client, method

    @property
    def path(self) -> Path:
        """The file of the newest state."""
        return self.folder / kept_as(STATE_FILE, self.method)

    @contextmanager
    def lock(self, leaving: bool = False) -> Iterator[None]:
        """Wait until no other process of this client works, such as one of a node that died.

        Raises a RunError where the folder cannot be written, and Unwilling if the person left.
        """
        try:
            make_folder(self.folder)
            file = os.fdopen(private(self.folder / "lock", os.O_WRONLY | os.O_CREAT), "w")
        except OSError as error:
            raise RunError(
                f"client {self.client!r}: no state can be kept in {self.folder} ({error}); choose "
                "another state-dir, or mend this one"
            ) from error
        with file:
            lock(file)  # where there is none, as on Windows, Flower's own order alone protects
            if not leaving and (self.folder / LEAVING_FILE).exists():
                raise Unwilling(f"client {self.client!r}: its person leaves")
            yield

    def load(self) -> Saved | None:
        """Return the last saved state.

        Where that is damaged the client starts anew from the server's next download; raises as
        :func:`load_state`.
        """
        return load_state(self.path, self.client)

    def find(self, run: str, method: str) -> Saved | None:
        """Return the last state of a run's method; raises as :meth:`load`.

        A run may go on with another main method: then what was beside it stands where the main
        one's is looked for, and the other way round. Another run's state may stand there now.
        """
        now = *_both(STATE_FILE, method), *kept_names(run, method)
        there = (load_state(self._at(name), self.client) for name in now)
        if (saved := latest(there, run, method)) is not None:
            return saved
        before = (read_state(self._at(name)) for name in _both(PREVIOUS_FILE, method))
        return latest(before, run, method)

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Write a new file and move it over the old one; both are synced to the disk.

        With `new_run` the old one, of another run or method, gets its name among the kept ones
        before. Where this is stopped half-way, each run's state is there under some name.

        Raises
        ------
        RunError
            Where it cannot be written, as on a full disk. The old file stays as it was.
        """

        def keep(_: Path) -> None:
            if new_run and self.path.exists():
                before = unseal(self.path.read_bytes(), self.client)
                name = kept_name(Saved.of_bytes(before))
                os.replace(self.path, self._at(name))
                log.warning("client %s: another run; kept the one before as %s", self.client, name)

        try:
            make_folder(self.folder)
            remove_drafts(self.folder)
            replace_file(self.path, seal(saved.to_bytes(), self.client), keep)
            if new_run:
                self._remove_others(saved)
                make_room(self.folder, self.client)
        except OSError as error:
            raise RunError(
                f"client {self.client!r}, round {saved.round}: {self.path} could not be written "
                f"({error}); the state before it is kept. Free some space"
            ) from error

    def load_sums(self, run: str) -> bytes | None:
        """Return a participant's secrets of a run's secure sums.

        Raises RunError where there is a file that cannot be read.
        """
        return load_sums(*self._sums(run), run)

    def save_sums(self, kept: bytes, run: str) -> None:
        """Write a new file and move it over the old one.

        Raises RunError where it cannot be written, as on a full disk.
        """
        own, before = self._sums(run)
        try:
            save_sums(own, before, kept)
        except OSError as error:
            why = f"{own} could not be written ({error}). Free some space"
            raise RunError(f"client {self.client!r}: {why}") from error

    def _sums(self, run: str) -> tuple[Path, Path]:
        """Return the run's file, and the one of earlier releases."""
        own = self._at(kept_as(kept_as(SUMS_FILE, run_digest(run)), self.method))
        return own, self._at(kept_as(SUMS_FILE, self.method))

    def _at(self, name: str) -> Path:
        return self.folder / name

    def _remove_others(self, saved: Saved) -> None:
        """Remove older states of the same run and method, which stand under other names."""
        run, method = saved.run, saved.method
        for kind in (STATE_FILE, PREVIOUS_FILE):
            for path in map(self._at, _both(kind, method)):
                if path != self.path and latest([read_state(path)], run, method) is not None:
                    path.unlink()
        for name in kept_names(run, method):
            self._at(name).unlink(missing_ok=True)


def _both(name: str, method: str) -> tuple[str, str]:
    """Return the names under which a method's file may stand: the main method's, and its own."""
    return name, kept_as(name, method)
