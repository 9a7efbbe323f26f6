"""The engine is not the method: CohortGrid, Ray and a deployment over TLS give equal models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from fedsub_client.saved import Saved
from safetensors.torch import load_file
from torch import Tensor

from fedsub.engines.ray import flower_run, simulation_link
from fedsub.engines.rehearsal import Rehearsal
from fedsub.engines.simulation import train_method
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import from_flat
from fedsub_core.data.card import Card
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.metrics import MetricRow
from fedsub_data.evolution import EvolutionOptions, evolve
from fedsub_server.rundb import RunDatabase

ROOT = Path(__file__).resolve().parents[3]
CLIENTS, ROUNDS = 2, 2
RunConfigTable = dict[str, str | int | float | bool]


def two_people(folder: Path) -> Federation:
    """Real smartwatch windows of two people, as channel means: 6 features, the MLP's input.

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


def by_ray(keys: RunConfigTable, folder: Path) -> Path:
    """Flower's simulation; return the run's database."""
    with simulation_link(folder / "home") as env:
        flower_run(ROOT, env, CLIENTS, keys | {"out": str(folder)}, timeout=240)
    return next(folder.glob("flower-*")) / str(keys["method"]) / "state.db"


def by_deployment(keys: RunConfigTable, folder: Path) -> Path:
    """SuperLink and SuperNodes over TLS; return the run's database."""
    rehearsal = Rehearsal(from_flat(keys | {"out": str(folder)}), CLIENTS, print, print)
    rehearsal()
    return rehearsal.database


def assert_close(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> int:
    """Return how many numbers were compared."""
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=1e-6, rtol=0)
    return sum(t.numel() for t in theirs.values() if t.is_floating_point())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "method"),
    [(by_ray, "fedsub"), (by_ray, "fedavg"), (by_deployment, "fedsub")],
)
def test_an_engine_and_cohort_grid_give_equal_models(
    engine: Callable[[RunConfigTable, Path], Path], method: str, tmp_path: Path
) -> None:
    federation = two_people(tmp_path / "data")
    keys: RunConfigTable = {
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
    }
    path = engine(keys, tmp_path / "engine")
    train_method(from_flat(keys), method, federation, tmp_path / "cohort", lambda round: None)

    with RunDatabase(path) as theirs, RunDatabase(tmp_path / "cohort" / "state.db") as ours:
        (their_round, their_state), (our_round, our_state) = theirs.load(), ours.load()
    assert their_round == our_round == ROUNDS
    compared = assert_close(their_state["server"], our_state["server"])
    assert compared > 10_000, "the comparison saw no model"

    # Losses on every test sample tell personal models apart, wherever they are kept.
    their_metrics, our_metrics = metrics(path), metrics(tmp_path / "cohort" / "state.db")
    assert their_metrics.keys() == our_metrics.keys()
    for key, value in our_metrics.items():
        # Flower's ids of runs and nodes take a few bytes more there than here.
        tolerance = 200 if key[2].endswith("_flower") else 1e-6
        assert their_metrics[key] == pytest.approx(value, abs=tolerance), key
    assert sum(key[2] == "loss" for key in our_metrics) == CLIENTS * ROUNDS

    # A simulation's nodes take their models with them; a deployment's devices have them on disk.
    files = sorted((tmp_path / "engine").glob(f"deploy-*/state/*/{STATE_FILE}"))
    assert len(files) == (CLIENTS if engine is by_deployment else 0)
    for file in files:
        saved = Saved.of_bytes(file.read_bytes())
        assert saved.round == ROUNDS and saved.model is not None
        assert_close(saved.state, our_state[f"client/{saved.client}"])
        exported = load_file(tmp_path / "cohort" / "models" / f"{saved.client}.safetensors")
        assert assert_close(saved.model.params, exported) > 10_000
