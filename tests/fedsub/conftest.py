"""A small federation on disk, for whole runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import Card, ClientData, Federation, write_federation


@pytest.fixture(scope="session")
def town() -> Callable[..., Federation]:
    """Make a federation of people whose feature distributions differ, in memory."""

    def make(clients: int = 4, samples: int = 12, seed: int = 0) -> Federation:
        stream = np.random.default_rng(seed)
        people = {}
        for i in range(clients):
            y = np.tile(np.arange(3), samples + i)
            x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y] + stream.normal(size=4)
            people[f"p{i + 1}"] = ClientData(f"p{i + 1}", x.astype(np.float32), y)
        card = Card("town", "a test", ("sit", "walk", "run"), ("a", "b", "c", "d"))
        return Federation(card, people)

    return make


@pytest.fixture
def town_folder(town: Callable[..., Federation], tmp_path: Path) -> Path:
    """The federation's folder, whose files a test may spoil."""
    write_federation(tmp_path / "town", town())
    return tmp_path / "town"
