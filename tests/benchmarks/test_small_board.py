"""What `pip install fedsub` brings: nothing that trains, and little enough for a small board."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "small_board.py"
#: Bytes of files, as pip has recorded them.
MOST = 350e6


def test_a_device_that_solves_installs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    installed = runpy.run_path(str(SCRIPT))["installed"]
    assert installed("") < MOST < installed("train")
