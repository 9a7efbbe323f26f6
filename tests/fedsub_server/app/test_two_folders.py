"""Two runs before the same devices: each has its own state there, and losses are said."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedsub_core.metric_names import ANEW


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The devices' own states."""
    return tmp_path / "states"


def test_a_mistyped_folder_costs_a_run_nothing(
    tmp_path: Path,
    home: Path,
    data: str,
    devices: Any,
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    steady = {
        name: configuration(data, tmp_path / f"steady-{name}", rounds=rounds)
        for name, rounds in (("a", 4), ("b", 2))
    }
    for name, config in steady.items():
        serve(devices(config, tmp_path / f"states-{name}"), config)
    for name, rounds in (("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2), ("a", 4)):
        config = configuration(data, tmp_path / name, rounds=rounds)
        serve(devices(config, home), config)
    for name, alone in steady.items():
        one, other = result(alone), result(configuration(data, tmp_path / name))
        assert_same(one[1], other[1])
        assert one[2] == other[2]
    assert "begins anew" not in caplog.text
    states = devices(config, home).states()  # what is predicted with is the newest's
    assert {(one.run, one.round) for one in states.values()} == {(result(config)[3], 4)}


def test_a_device_that_was_known_and_begins_anew_is_said(
    tmp_path: Path,
    home: Path,
    data: str,
    devices: Any,
    configuration: Any,
    serve: Any,
    result: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "run"
    # Who comes late has nothing of the run either, and lost nothing.
    config = configuration(data, folder, rounds=1, **{"min-clients": 2})
    serve(devices(config, home, nodes=2), config)
    caplog.set_level(logging.WARNING)
    for rounds, lost in ((2, None), (3, "anna")):
        if lost is not None:
            shutil.rmtree(home / lost)
        caplog.clear()
        config = configuration(data, folder, rounds=rounds)
        serve(devices(config, home), config)
        said = [record.message for record in caplog.records if "begins anew" in record.message]
        assert len(said) == (lost is not None)
        assert all(text.startswith(f"client {lost}: begins anew in round 3: ") for text in said)
    rows = [(*row[:2], row.value) for row in result(config)[2] if row.metric == ANEW]
    assert rows == [(3, "anna", 2.0)]
