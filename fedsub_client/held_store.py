"""Where a simulated device keeps its state whose object lasts: in this process, as it is."""

from __future__ import annotations

from flwr.app import RecordDict

from fedsub_client.saved_state import Saved
from fedsub_client.state_files import latest
from fedsub_client.store import RECORD, ContextStore, kept_as


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
