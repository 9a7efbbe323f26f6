"""Where a device keeps its state: a folder on its disk, or the node's context in a simulation."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from flwr.app import ArrayRecord, RecordDict

from fedsub_client.saved_state import Saved
from fedsub_core.errors import OtherRelease, RunError
from fedsub_core.files import lock, make_folder, private, remove_drafts, replace_file
from fedsub_core.wire import exchange

log = logging.getLogger("fedsub")

STATE_FILE = "state.safetensors"
#: The last state of the run before this one.
PREVIOUS_FILE = "previous.safetensors"
RECORD = "fedsub"
#: What a secure sum's participant keeps from message to message.
SUMS_FILE, SUMS_RECORD = "sums.json", "fedsub-sums"


def beside(name: str, method: str) -> str:
    """Return the name under which a method beside the run's main one ("") keeps something."""
    stem, dot, ending = name.partition(".")
    return f"{stem}-{method}{dot}{ending}" if method else name


class Store(Protocol):
    """Keeps one client's :class:`Saved`."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let no other process of this client work meanwhile."""

    def load(self) -> Saved | None:
        """Return what was saved last, None where there is nothing or nothing usable."""

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Keep `saved` in place of what was saved before, all of it or nothing.

        The first state of a `new_run` does not destroy what stands there, of the run before or of
        the run's other method.
        """

    def load_sums(self) -> bytes | None:
        """Return what a secure sum's participant kept; None where there is nothing."""

    def save_sums(self, kept: bytes) -> None:
        """Keep it in place of what it kept before."""


class ContextStore:
    """In the node's context: travels with Flower's messages in a simulation, and dies with it."""

    def __init__(self, records: RecordDict, method: str = "") -> None:
        self.records, self.name = records, beside(RECORD, method)
        self.sums = beside(SUMS_RECORD, method)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Do nothing: Flower hands a context to one process at a time."""
        yield

    def load(self) -> Saved | None:
        """Return what was saved last."""
        if self.name not in self.records:
            return None
        record = cast(ArrayRecord, self.records[self.name])
        return Saved.of_bytes(record[exchange.PAYLOAD].data)

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Keep `saved`; a context belongs to one run."""
        self.records[self.name] = exchange.pack(saved.to_bytes())

    def load_sums(self) -> bytes | None:
        """Return what a secure sum's participant kept."""
        if self.sums not in self.records:
            return None
        return cast(ArrayRecord, self.records[self.sums])[exchange.PAYLOAD].data

    def save_sums(self, kept: bytes) -> None:
        """Keep it."""
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
        """The file."""
        return self.folder / beside(STATE_FILE, self.method)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process of this client works, such as one of a node that died.

        Raises
        ------
        RunError
            Where the folder cannot be made or written.
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
            yield

    def load(self) -> Saved | None:
        """Return what was saved last.

        A file that is damaged, or another client's, is kept aside under another name and said: the
        client starts anew from the server's next download.

        Raises
        ------
        OtherRelease
            Where a release wrote it whose files this one does not read. It stays as it is.
        RunError
            Where there is a file that cannot be read or moved.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"{self.path}: cannot be read ({error})") from error
        try:
            saved = Saved.of_bytes(data)
            if saved.client != self.client:
                raise RunError(f"it is client {saved.client!r}'s, expected {self.client!r}'s")
        except OtherRelease as error:
            raise OtherRelease(
                f"client {self.client!r}: {self.path}: {error}. The file is left as it is: install "
                "a release that reads it, or give this device another state-dir"
            ) from error
        except RunError as error:
            aside = self._aside()
            log.warning(
                "client %s: %s: %s; kept aside as %s. This device starts from the server's next "
                "download",
                self.client,
                self.path,
                error,
                aside.name,
            )
            return None
        return saved

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Write a new file and move it over the old one; both are synced to the disk.

        With `new_run` the old one, of another run or method, gets another name.

        Raises
        ------
        RunError
            Where it cannot be written, as on a full disk. The old file stays as it was.
        """

        def keep_previous(_: Path) -> None:
            if new_run and self.path.exists():
                kept = self._name_of_previous(saved.method)
                if kept is not None:
                    os.replace(self.path, self.folder / kept)
                    log.warning("client %s: new run; kept the last as %s", self.client, kept)

        try:
            make_folder(self.folder)
            remove_drafts(self.folder)
            replace_file(self.path, saved.to_bytes(), keep_previous)
        except OSError as error:
            raise RunError(
                f"client {self.client!r}, round {saved.round}: {self.path} could not be written "
                f"({error}); the state before it is kept. Free some space"
            ) from error

    def load_sums(self) -> bytes | None:
        """Return what a secure sum's participant kept.

        Raises
        ------
        RunError
            Where there is a file that cannot be read.
        """
        path = self._sums
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error})") from error

    def save_sums(self, kept: bytes) -> None:
        """Write a new file and move it over the old one.

        Raises
        ------
        RunError
            Where it cannot be written, as on a full disk.
        """
        try:
            replace_file(self._sums, kept)
        except OSError as error:
            why = f"{self._sums} could not be written ({error}). Free some space"
            raise RunError(f"client {self.client!r}: {why}") from error

    @property
    def _sums(self) -> Path:
        return self.folder / beside(SUMS_FILE, self.method)

    def _name_of_previous(self, method: str) -> str | None:
        """Return under which name to keep what a first state of `method` is written over.

        Another method's under the name that it has beside a main one: the run's main method may
        have changed. None where that one has gone on under it.
        """
        there = _read(self.path)
        if there is None or there.method == method:
            return beside(PREVIOUS_FILE, self.method)
        name = beside(STATE_FILE, there.method)
        other = _read(self.folder / name)
        gone_on = other is not None and other.run == there.run and other.round >= there.round
        return None if gone_on else name

    def _aside(self) -> Path:
        for number in range(1, 1000):
            aside = self.folder / f"damaged-{number}.safetensors"
            if not aside.exists():
                try:
                    os.replace(self.path, aside)
                except OSError as error:
                    raise RunError(f"{self.path}: cannot be moved aside ({error})") from error
                return aside
        raise RunError(f"{self.folder}: a thousand damaged states; look at this device's disk")


def _read(path: Path) -> Saved | None:
    """Return a file's state, None where there is none that can be read.

    Raises
    ------
    OtherRelease
        Where it is whole and another release's: nothing may take its place.
    """
    try:
        return Saved.of_bytes(path.read_bytes())
    except OtherRelease:
        raise
    except (OSError, RunError):
        return None
