"""What a device keeps of its runs' methods from message to message, each in a store of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import RecordDict

from fedsub_client.best_so_far import best_tensors
from fedsub_client.protections.opened_store import OpenedStore
from fedsub_client.saved_state import Saved
from fedsub_client.state_files import latest
from fedsub_client.store import RECORD, ContextStore, FolderStore, Store, kept_as
from fedsub_core.errors import RunError
from fedsub_core.wire.exchange import Instructions


class HeldStore(ContextStore):
    """In this process: a state is not written, and lasts as long as what it is `held` in."""

    def __init__(self, held: dict[str, Saved], records: RecordDict, method: str = "") -> None:
        super().__init__(records, method)
        self.held = held

    def load(self) -> Saved | None:
        """Return the last saved state."""
        return self.held.get(self.name)

    def find(self, run: str, method: str) -> Saved | None:
        """Return the state of the run's method."""
        there = [self.held.get(kept_as(RECORD, other)) for other in ("", method)]
        return latest(there, run, method)

    def save(self, saved: Saved, new_run: bool = False) -> None:
        """Hold `saved`; what holds it is of one run."""
        self.held[self.name] = saved


class KeptStates:
    """The states of a device's person.

    Parameters
    ----------
    methods : of the run, its main one first.
    node : the node's config: with ``state-dir`` states last on disk.
    context : keeps them else, as long as the node lasts.
    held : keeps them instead, as they are, where the device's object lasts as long; None: it does
        not.
    """

    def __init__(
        self,
        client: str,
        methods: Sequence[str],
        node: Mapping[str, Any],
        context: RecordDict,
        held: dict[str, Saved] | None = None,
    ) -> None:
        self.client, self.methods = client, methods
        self._node, self._context, self._held = node, context, held

    def store(self, method: str) -> Store:
        """Return the store of the state of `method`.

        Raises RunError where it is none of the run's methods.
        """
        if method not in self.methods:
            expected = ", ".join(self.methods)
            raise RunError(
                f"client {self.client!r}: asked to train {method!r}, expected {expected}"
            )
        return self._store("" if method == self.methods[0] else method)

    def everywhere(self) -> list[Store]:
        """Return all stores in which something of the run's methods may be kept."""
        return [self._store(other) for other in ("", *self.methods)]

    def opened(self) -> OpenedStore:
        """Return the store of the sums that the person opened, in any run."""
        folder = self._node.get("state-dir")
        return OpenedStore(Path(str(folder)) / self.client if folder else None, self._context)

    def load(self, instructions: Instructions) -> Saved | None:
        """Return this device's state of the run; None where the run is new here.

        Of the run with whose models this one began it is the state that a round has yet to be
        trained in: without what tells its best round.
        """
        store, method = self.store(instructions.method), instructions.method
        if (saved := store.find(instructions.run, method)) is not None:
            return saved
        before = instructions.begun_with
        if not before or (saved := store.find(before, method)) is None:
            return None
        best = best_tensors(saved.state)
        kept = {name: tensor for name, tensor in saved.state.items() if name not in best}
        return Saved(self.client, instructions.run, method, 0, saved.file, kept, model=saved.model)

    def of_run(self, run: str) -> Saved | None:
        """Return the state of a run: of the first of its methods that keeps one."""
        states = [self.store(name).load() for name in self.methods]
        return next((saved for saved in states if saved is not None and saved.run == run), None)

    def save(self, saved: Saved, instructions: Instructions) -> None:
        """Keep a state; not in place of another run's or method's."""
        store = self.store(instructions.method)
        there = store.load() if isinstance(store, FolderStore) else None  # a context is of one run
        new = there is None or not there.is_of(instructions.run, instructions.method)
        store.save(saved, new_run=new)

    def _store(self, other: str) -> Store:
        if "state-dir" in self._node:
            return FolderStore(Path(str(self._node["state-dir"])), self.client, other)
        if self._held is not None:
            return HeldStore(self._held, self._context, other)
        return ContextStore(self._context, other)
