"""A device in TypeScript beside two of Python's in a deployment: the same person, the same numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.flower.modules import HTTP, demand_deployable
from fedsub_core.metric_names import OWN_HEADS

from .equal_runs import metrics_of
from .web_rehearsal import WithWebDevice

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="devices without Python need Flower 1.42"),
]

METHODS = ("fedavg", "fedper", "ditto", "fedsub")
WEB = "p2"
SETTINGS = {
    "method": METHODS[0],
    "beside": ",".join(METHODS[1:]),
    "rounds": 2,
    "lr": 0.05,
    "batch-size": 8,
    "quorum": 1.0,
    "threads": 3,
}


def test_a_device_in_typescript_is_as_good_as_one_in_python(
    town: Callable[..., Federation], tmp_path: Path
) -> None:
    people = town(3)
    write_federation(tmp_path / "data", people)
    config = read_config(None, SETTINGS | {"data": str(tmp_path / "data"), "out": str(tmp_path)})
    rehearsal = WithWebDevice(config, len(people.clients), WEB)
    rehearsal()
    for method in METHODS:
        alone = tmp_path / method
        alone.mkdir()
        train_method(config, method, people, alone, lambda round: None)
        ours, theirs = (
            {
                (round, metric, label): value
                for (round, client, metric, label), value in metrics_of(database).items()
                if client == WEB and metric not in OWN_HEADS and "bytes" not in metric
            }
            for database in (rehearsal.place.run / method / "state.db", alone / "state.db")
        )
        assert ours.keys() == theirs.keys()
        assert max(round for round, _, _ in ours) == SETTINGS["rounds"]
        assert ours == pytest.approx(theirs, abs=1e-5)
