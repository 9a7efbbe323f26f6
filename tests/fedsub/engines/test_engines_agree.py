"""The engine is not the method: CohortGrid, Ray and a deployment over TLS give equal models.

With all that a device remembers between two messages: what was lost to a lossy encoding, from what
the next difference is, and which of its samples it does not have yet.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedsub.engines.flower_simulation import flower_run, simulation_link
from fedsub.engines.rehearsal import Rehearsal
from fedsub.engines.simulation import train_method
from fedsub.testing.engine_tests import as_in_one_process
from fedsub_client.loaded_model import load_model
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import from_flat
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.metrics import MetricRow
from fedsub_data.evolution import EvolutionOptions, arrivals, evolve
from fedsub_server.rundb import RunDatabase

ROOT = Path(__file__).resolve().parents[3]
CLIENTS, ROUNDS = 2, 3
Keys = dict[str, str | int | float | bool]
KEYS: Keys = {
    "method": "fedsub",
    "beside": "",
    "rounds": ROUNDS,
    "lr": 0.05,
    "upload-encoding": "delta,top-k:0.5,int8,zstd",
    "download-encoding": "delta,bfloat16",
    # Every device draws it anew.
    "encoder": "relu:12",
    # Flower's run config lists no method's keys.
    "set": "fedsub.relevance=naive fedsub.k-selection=fixed:1 fedsub.fusion=avg",
}


def two_people(folder: Path) -> Federation:
    """Real smartwatch windows of two people, as channel means: 6 features.

    All start without some of their exercises, and get one of them back in every further round.
    """
    watch = watch_federation()
    features = {
        client: replace(data, x=data.x.mean(2))
        for client, data in list(watch.clients.items())[:CLIENTS]
    }
    card = replace(watch.card, sampling_rate_hz=None)
    federation = evolve(Federation(card, features), EvolutionOptions(1.0, 0.8, 1), seed=0)
    assert {at.round for at in arrivals(federation.clients.values())} >= {2, 3}
    write_federation(folder, federation)
    return federation


def by_ray(keys: Keys, folder: Path) -> Path:
    """Flower's simulation; return the folder of the run's method."""
    with simulation_link(folder / "home") as env:
        flower_run(ROOT, env, CLIENTS, keys | {"out": str(folder)}, timeout=240)
    return next(folder.glob("flower-*")) / "fedsub"


def by_deployment(keys: Keys, folder: Path) -> Path:
    """SuperLink and SuperNodes over TLS; return the folder of the run's method."""
    rehearsal = Rehearsal(from_flat(keys | {"out": str(folder)}), CLIENTS, print, print)
    return rehearsal() / "fedsub"


def models_of(engine: Path, own: Path) -> dict[str, Mapping[str, Tensor]]:
    """People's models: a simulation's run has them, a deployment's devices alone."""
    files = sorted(engine.glob(f"deploy-*/state/*/{STATE_FILE}"))
    if not files:
        return {path.stem: load_model(path).params for path in (own / "models").iterdir()}
    assert not (own / "models").exists(), "models left the devices"
    saved = [Saved.of_bytes(file.read_bytes()) for file in files]
    assert all(one.round == ROUNDS for one in saved)
    return {one.client: one.model.params for one in saved if one.model is not None}


def metrics(path: Path) -> dict[tuple[str, int, str, int | None], float]:
    def key(row: MetricRow) -> tuple[str, int, str, int | None]:
        return row.client, row.round, row.metric, row.label

    with RunDatabase(path) as database:
        return {key(row): row.value for row in database.metrics()}


def assert_equal(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> int:
    """Return how many numbers were compared."""
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name
    return sum(t.numel() for t in theirs.values() if t.is_floating_point())


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("engine", [by_ray, by_deployment])
def test_a_weak_device_is_the_same_in_every_engine(
    engine: Callable[[Keys, Path], Path], tmp_path: Path
) -> None:
    """A deployed one says its capacity itself, and the server writes to it as it can read."""
    watch = watch_federation()
    federation = replace(watch, clients=dict(list(watch.clients.items())[:CLIENTS]))
    write_federation(tmp_path / "data", federation)
    keys: Keys = {"method": "fedsub-ridge", "beside": "", "rounds": ROUNDS, "set": ""}
    keys |= {"encoder": "kernels:12", "capacities": "01=0.5", "data": str(tmp_path / "data")}
    theirs = engine(keys, tmp_path / "engine").parent / "fedsub-ridge"
    ours = tmp_path / "cohort"
    train_method(from_flat(keys), "fedsub-ridge", federation, ours, lambda round: None)
    their, our = models_of(tmp_path / "engine", theirs), models_of(tmp_path / "none", ours)
    assert [our[c]["linear1.weight"].shape[1] for c in ("01", "02")] == [30, 60]
    assert their.keys() == our.keys()
    assert all(assert_equal(their[client], our[client]) for client in our)


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("engine", [by_ray, by_deployment])
def test_an_engine_and_cohort_grid_give_equal_models(
    engine: Callable[[Keys, Path], Path], tmp_path: Path
) -> None:
    federation = two_people(tmp_path / "data")
    keys = KEYS | {"data": str(tmp_path / "data")}
    theirs = engine(keys, tmp_path / "engine")
    # As many stacks as clients, which compute what one device does, to the bit.
    config = replace(from_flat(keys), threads=CLIENTS)
    ours = tmp_path / "cohort"
    train_method(config, "fedsub", federation, ours, lambda round: None)

    with RunDatabase(theirs / "state.db") as their, RunDatabase(ours / "state.db") as our:
        (their_round, their_state), (our_round, our_state) = their.load(), our.load()
    assert their_round == our_round == ROUNDS
    compared = assert_equal(as_in_one_process(their_state["server"]), our_state["server"])
    assert compared > 10_000, "the comparison saw no model"

    # Losses on every test sample tell personal models apart, wherever they are kept.
    their_metrics, our_metrics = metrics(theirs / "state.db"), metrics(ours / "state.db")
    assert their_metrics.keys() == our_metrics.keys()
    for key, value in our_metrics.items():
        # Flower's ids of runs and nodes take a few bytes more there than here.
        tolerance = 200 if key[2].endswith("_flower") else 0
        assert their_metrics[key] == pytest.approx(value, rel=0, abs=tolerance), key
    assert sum(key[2] == "loss" for key in our_metrics) == CLIENTS * ROUNDS

    models = models_of(tmp_path / "engine", theirs)
    assert len(models) == CLIENTS
    for client, model in models.items():
        assert (
            assert_equal(model, load_model(ours / "models" / f"{client}.safetensors").params)
            > 10_000
        )
    for file in (tmp_path / "engine").glob(f"deploy-*/state/*/{STATE_FILE}"):
        saved = Saved.of_bytes(file.read_bytes())
        assert_equal(saved.state, our_state[f"client/{saved.client}"])
