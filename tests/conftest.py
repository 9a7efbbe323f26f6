"""Shared by all tests: one thread, and where the real federations lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real federations: FEDSUB_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("FEDSUB_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real federations at {folder}: set FEDSUB_DATA to their folder")
    return folder
