"""The engine is not the method: CohortGrid and Flower's Ray simulation give equal models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedsub.data.evolution import EvolutionOptions, evolve
from fedsub.flower_engine import flower_run, simulation_link
from fedsub.simulation import train_method
from fedsub_core.card import Card
from fedsub_core.config import from_flat
from fedsub_core.federation import Federation, write_federation
from fedsub_core.metrics import MetricRow
from fedsub_core.watch import watch_federation
from fedsub_server.rundb import RunDatabase

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, ROUNDS = 3, 2


def three_people(folder: Path) -> Federation:
    """Real smartwatch windows of three people, as channel means: 6 features, the MLP's input.

    All start without some of their exercises, and get the first of them back in round 2.
    """
    watch = watch_federation()
    features = {
        client: type(data)(client, data.x.mean(2), data.y, data.t)
        for client, data in list(watch.clients.items())[:CLIENTS]
    }
    card = Card(**{**vars(watch.card), "sampling_rate_hz": None})
    federation = evolve(Federation(card, features), EvolutionOptions(1.0, 0.8, 1), seed=0)
    write_federation(folder, federation)
    return federation


def metrics(path: Path) -> dict[tuple[str, int, str, int | None], float]:
    def key(row: MetricRow) -> tuple[str, int, str, int | None]:
        return row.client, row.round, row.metric, row.label

    with RunDatabase(path) as database:
        return {key(row): row.value for row in database.metrics()}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedsub", "fedavg"])
def test_cohort_grid_and_ray_give_equal_models(method: str, tmp_path: Path) -> None:
    federation = three_people(tmp_path / "data")
    run_config = {
        "data": str(tmp_path / "data"),
        "method": method,
        "beside": "",
        "rounds": ROUNDS,
        "lr": 0.05,
        # What devices remember of the wire has to survive between Flower's messages, too.
        "upload-encoding": "delta,zstd",
        "download-encoding": "delta",
        "fedsub.relevance": "naive",
        "fedsub.k-selection": "fixed:1",
        "fedsub.fusion": "avg",
        "out": str(tmp_path / "flower"),
    }
    with simulation_link(tmp_path / "home") as env:
        flower_run(ROOT, env, CLIENTS, run_config, timeout=240)
    config = from_flat(run_config)
    train_method(config, method, federation, tmp_path / "cohort", lambda round: None)

    ray = next((tmp_path / "flower").glob("flower-*")) / method / "state.db"
    with RunDatabase(ray) as theirs, RunDatabase(tmp_path / "cohort" / "state.db") as ours:
        (ray_round, ray_state), (our_round, our_state) = theirs.load(), ours.load()
    assert ray_round == our_round == ROUNDS
    assert ray_state["server"].keys() == our_state["server"].keys()
    moved = 0
    for name, tensor in our_state["server"].items():
        torch.testing.assert_close(ray_state["server"][name], tensor, atol=1e-6, rtol=0)
        moved += tensor.numel() if tensor.is_floating_point() else 0
    assert moved > 10_000, "the comparison saw no model"

    # Personal models stay on the devices; their losses on every test sample tell them apart.
    ray_metrics, our_metrics = metrics(ray), metrics(tmp_path / "cohort" / "state.db")
    assert ray_metrics.keys() == our_metrics.keys()
    for key, value in our_metrics.items():
        # Flower's ids of runs and nodes take a few bytes more there than here.
        tolerance = 200 if key[2].endswith("_flower") else 1e-6
        assert ray_metrics[key] == pytest.approx(value, abs=tolerance), key
    assert sum(key[2] == "loss" for key in our_metrics) == CLIENTS * ROUNDS
