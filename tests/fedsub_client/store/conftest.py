"""A client's folder and states to keep in it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedsub_client.file_history import FileHistory
from fedsub_client.saved_state import Saved
from fedsub_client.store import FolderStore

SIZE = 40_000
FILE = FileHistory((9,), b"digest")


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "states", "p")


@pytest.fixture
def saved() -> Any:
    """Make the state after a round."""

    def make(
        round: int,
        client: str = "p",
        run: str = "run",
        method: str = "local",
        finished: bool = False,
    ) -> Saved:
        state = {"w": torch.full((SIZE,), float(round)), "n": torch.tensor(round)}
        reply = b"%d" % round
        return Saved(client, run, method, round, FILE, state, reply, finished=finished)

    return make


@pytest.fixture
def assert_whole() -> Any:
    """Check that it is the whole state after that round."""

    def check(found: Saved | None, round: int) -> None:
        assert found is not None and found.round == round and found.reply == b"%d" % round
        assert found.state["n"].item() == round
        assert found.state["w"].shape == (SIZE,) and (found.state["w"] == round).all()

    return check


@pytest.fixture
def names(store: FolderStore) -> Any:
    """List the folder's files."""
    return lambda: sorted(path.name for path in store.folder.iterdir())
