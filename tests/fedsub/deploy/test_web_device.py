"""A device in TypeScript beside two of Python's in a deployment: one person, the same numbers."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.flower.modules import HTTP, demand_deployable

from .equal_runs import metrics_of
from .web_rehearsal import WithWebDevice

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        demand_deployable() != HTTP, reason="devices without Python need Flower 1.42"
    ),
]

WEB = "p2"
SETTINGS = {"lr": 0.05, "batch-size": 8, "quorum": 1.0, "threads": 3, "evaluate-every": 1}
#: By the methods of a run. People of secure sums sign their keys, and are in a roster.
RUNS: dict[tuple[str, ...], dict[str, Any]] = {
    ("fedavg", "fedsub", "ditto", "fedsub-ridge"): {"rounds": 2},
    ("fedsub-ridge",): {
        "rounds": 4,
        "secure-aggregation": True,
        "robust": "none",
        "standardise": "federation",
    },
    ("fedprox", "fedper", "fedrep", "local", "fedsub"): {"rounds": 2},
}


# CI deploys the first, on the second Flower; the others run before a release.
@pytest.mark.parametrize(
    ("methods", "kills"),
    [
        pytest.param(methods, kills, id=name, marks=[pytest.mark.release] * (name != "methods"))
        for (name, kills), methods in zip(
            {"methods": 0, "sums": 0, "killed": 8}.items(), RUNS, strict=True
        )
    ],
)
def test_a_device_in_typescript_is_as_good_as_one_in_python(
    methods: tuple[str, ...],
    kills: int,
    town: Callable[..., Federation],
    tmp_path: Path,
) -> None:
    people, run = town(3), RUNS[methods]
    write_federation(tmp_path / "data", people)
    places = {"data": str(tmp_path / "data"), "out": str(tmp_path)}
    named = {"method": methods[0], "beside": ",".join(methods[1:])}
    config = read_config(None, SETTINGS | run | places | named)
    waits = [random.uniform(0.5, 6) for _ in range(kills)]
    rehearsal = WithWebDevice(config, len(people.clients), WEB, waits)
    rehearsal()
    assert rehearsal.killed >= kills // 2
    for method in methods:
        alone = tmp_path / method
        alone.mkdir()
        train_method(config, method, people, alone, lambda round: None)
        ours, theirs = (
            _comparable(database)
            for database in (rehearsal.place.run / method / "state.db", alone / "state.db")
        )
        assert ours.keys() == theirs.keys()
        assert max(round for round, _, _ in ours) == run["rounds"]
        assert ours == pytest.approx(theirs, abs=1e-5)


def _comparable(database: Path) -> dict[tuple[int, str, int | None], float]:
    """Return the metrics of the device, without bytes and without ends of drawn intervals."""
    return {
        (round, metric, label): value
        for (round, client, metric, label), value in metrics_of(database).items()
        if client == WEB and "bytes" not in metric and not metric.endswith(("_low", "_high"))
    }
