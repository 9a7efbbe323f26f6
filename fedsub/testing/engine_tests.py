"""The engine is not the method: CohortGrid, Ray and a deployment over TLS give equal models."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedsub.deploy.flower_app import write_app
from fedsub.engines.flower_simulation import flower_run, simulation_link
from fedsub.engines.rehearsal import Rehearsal
from fedsub.engines.simulation import train_method
from fedsub_client.loaded_model import load_model
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE, kept_as
from fedsub_core.config.run_config import from_flat
from fedsub_core.data.federation import Card, Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.methods.table import METHODS
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import DATABASE_FILE, METRICS_FILE, MODELS, SUMMARY_FILE
from fedsub_server.rundb import RunDatabase
from strategies.rounds.identity import IDENTITY
from strategies.rounds.patience import PATIENCE

CLIENTS, ROUNDS = 2, 2
Keys = dict[str, str | int | float | bool]
Engine = Callable[[Keys, Path], Path]


def two_people(folder: Path) -> Federation:
    """Write two people's real smartwatch windows, as channel means: 6 features, the MLP's input."""
    watch = watch_federation()
    features = {
        client: type(data)(client, data.x.mean(2), data.y, data.t)
        for client, data in list(watch.clients.items())[:CLIENTS]
    }
    federation = Federation(Card(**{**vars(watch.card), "sampling_rate_hz": None}), features)
    write_federation(folder, federation)
    return federation


def by_ray(keys: Keys, folder: Path) -> Path:
    """Run in Flower's simulation; return the run's folder."""
    config = from_flat(keys | {"out": str(folder)})
    write_app(folder / "app", config)
    with simulation_link(folder / "home") as env:
        flower_run(folder / "app", env, CLIENTS, {"out": str(folder)}, timeout=540)
    return next(folder.glob("flower-*"))


def by_deployment(keys: Keys, folder: Path) -> Path:
    """Run on SuperLink and SuperNodes over TLS; return the run's folder."""
    config = from_flat(keys | {"out": str(folder)})
    return Rehearsal(config, CLIENTS, print, lambda _: None)()


def engine_models(
    folder: Path, name: str, main: str, builder: str = ""
) -> dict[str, Mapping[str, Tensor]]:
    """Return the personal models that a run left: where it was simulated, or on the devices."""
    simulated = (folder / name / MODELS).glob("*.safetensors")
    found: dict[str, Mapping[str, Tensor]] = {
        path.stem: load_model(path, builder).params for path in simulated
    }
    for path in folder.parent.glob(f"state/*/{kept_as(STATE_FILE, '' if name == main else name)}"):
        saved = Saved.of_bytes(path.read_bytes())
        assert saved.method == name and saved.round == ROUNDS and saved.model is not None
        assert not found.get(saved.client), "a person's model left the device"
        found[saved.client] = saved.model.params
    return found


def assert_close(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], where: str) -> int:
    """Return how many numbers were compared."""
    assert ours.keys() == theirs.keys(), where
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=1e-6, rtol=0, msg=f"{where} {name}")
    return sum(t.numel() for t in theirs.values() if t.is_floating_point())


def metrics(path: Path) -> dict[tuple[object, ...], float]:
    """Return all metrics of a run by what they are about."""
    with RunDatabase(path) as database:
        return {tuple(row[:4]): row.value for row in database.metrics()}


def check_engine(engine: Engine, names: Sequence[str], folder: Path, *given: str) -> None:
    """Train methods in an engine and in one process; check that all they leave is equal.

    `given` are hyperparameters, as ``fedsub.fusion=avg``.
    """
    federation, main = two_people(folder / "data"), names[0]
    # Two people fall into two groups at most.
    two_groups = [
        f"{name}.k-selection=fixed:2"
        for name in names
        if str(getattr(METHODS[name].agreed(), "k_selection", "")).startswith("fixed:")
    ]
    agreed = (f"{name}.{need}=true" for name in names for need in METHODS[name].needs)
    keys: Keys = {
        "data": str(folder / "data"),
        "method": main,
        "beside": ",".join(name for name in names if name != main),
        "rounds": ROUNDS,
        # A deployment starts a process for every message: one evaluation is enough.
        "evaluate-every": ROUNDS,
        "lr": 0.05,
        "set": " ".join([*two_groups, *agreed, *given]),
    }
    with pytest.MonkeyPatch.context() as environment:
        # Matplotlib refuses it, and no report is drawn: a minute's work for a table of methods.
        environment.setenv("MPLBACKEND", "none")
        found_in = engine(keys, folder / "engine")
    assert (found_in / SUMMARY_FILE).is_file()
    compared = 0
    for name in names:
        train_method(from_flat(keys), name, federation, folder / name, lambda round: None)
        theirs, ours = found_in / name / DATABASE_FILE, folder / name / DATABASE_FILE
        with RunDatabase(theirs) as one, RunDatabase(ours) as other:
            (their_round, their_state), (our_round, our_state) = one.load(), other.load()
        assert their_round == our_round == ROUNDS
        assert (found_in / name / METRICS_FILE).is_file()
        compared += assert_close(as_in_one_process(their_state[SERVER]), our_state[SERVER], name)
        # Losses on every test sample tell personal models apart, wherever they are kept.
        their_metrics, our_metrics = metrics(theirs), metrics(ours)
        assert their_metrics.keys() == our_metrics.keys(), name
        for key, value in our_metrics.items():
            # Flower's ids of runs and nodes take a few bytes more there than here.
            tolerance = 200 if str(key[3]).endswith("_flower") else 1e-5
            assert their_metrics[key] == pytest.approx(value, abs=tolerance, nan_ok=True), (
                name,
                key,
            )
        found = engine_models(found_in, name, main)
        assert found.keys() == federation.clients.keys(), name
        for client, model in found.items():
            expected = load_model(folder / name / MODELS / f"{client}.safetensors").params
            compared += assert_close(model, expected, f"{name} of {client}")
    assert compared > 10_000 * len(names), "the comparison saw no models"


@pytest.mark.slow
class EngineTests:
    """Two people for two rounds, in every engine."""

    names: Sequence[str]

    def test_ray_gives_what_one_process_gives(self, tmp_path: Path) -> None:
        check_engine(by_ray, self.names, tmp_path)

    def test_a_deployment_gives_what_one_process_gives(self, tmp_path: Path) -> None:
        check_engine(by_deployment, self.names, tmp_path)


def as_in_one_process(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state but for whose key is whose, and who was silent or slow of late."""
    return {n: tensor for n, tensor in state.items() if not n.startswith((IDENTITY, PATIENCE))}
