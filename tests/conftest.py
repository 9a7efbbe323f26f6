"""Shared by all tests: one thread, and where the real federations lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)

#: Slow tests that take minutes, by how their paths begin.
LONGEST = ("tests/methods/test_engines", "tests/fedsub/deploy/", "tests/docker/", "tests/docs/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the longest tests begin first: the workers then end at about the same time."""

    def place(item: pytest.Item) -> int:
        starts = (i for i, start in enumerate(LONGEST) if item.nodeid.startswith(start))
        return next(starts, len(LONGEST))

    items.sort(key=place)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real federations: FEDSUB_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("FEDSUB_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real federations at {folder}: set FEDSUB_DATA to their folder")
    return folder
