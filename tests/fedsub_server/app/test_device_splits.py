"""Devices say how they divided their own samples; a deployed run's folder says it as others do."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.studies.run import data_notes
from fedsub_core.data.federation import ClientData, Federation, write_federation
from fedsub_core.data.sources import load_federation
from fedsub_server.data_notes import read_notes


@pytest.fixture
def data(town: Federation, tmp_path: Path) -> str:
    """The town's folder; cleo is cut in time, and dora has too few samples to hold some back."""
    cleo = town.clients["cleo"]
    dora = ClientData("dora", np.eye(4, 2, dtype=np.float32), np.array([0, 0, 1, 1]))
    clients = town.clients | {
        "cleo": replace(cleo, t=np.arange(len(cleo.y), dtype=np.float64)),
        "dora": dora,
    }
    write_federation(tmp_path / "data", Federation(town.card, clients))
    return str(tmp_path / "data")


def test_how_devices_divided_their_samples_stands_in_the_run(
    data: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
) -> None:
    folder = tmp_path / "run"
    keys: dict[str, Any] = {"method": "fedavg", "rounds": 2, "best-by": "validation"}
    config = configuration(data, folder, **keys)
    serve(devices(config, home=tmp_path / "home"), config)
    found = read_notes(folder)
    assert found.splits == data_notes(config, load_federation(data)).splits
    assert found.splits["anna"].split == "at random in each class"
    assert found.splits["cleo"].split.startswith("in time by t")
    assert found.splits["anna"].validation > 0 == found.splits["dora"].validation
    said = json.loads((folder / "summary.json").read_text())["data"]
    assert sorted(said["splits"].values()) == [1, 3]
    held, unknown, drawn = said["remarks"]
    assert held.startswith("No validation part, for too few samples: dora.")
    assert unknown.startswith("Whether samples overlap is not known for 1 of 4 clients (cleo)")
    assert drawn.startswith("Split: at random in each class, for 3 of 4 people.")
    assert {f"note: {held}", f"note: {drawn}"} <= {*caplog.messages}


def test_who_is_away_when_the_run_goes_on_stays_noted(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any
) -> None:
    folder, home = tmp_path / "run", tmp_path / "home"
    config = configuration(data, folder, method="fedavg", rounds=1)
    serve(devices(config, home=home), config)
    first = read_notes(folder)
    longer = replace(config, rounds=2)
    serve(devices(longer, home=home, nodes=3), longer)
    assert read_notes(folder) == first and list(first.splits) == ["anna", "ben", "cleo", "dora"]
