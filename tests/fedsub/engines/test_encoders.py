"""A run with an encoder: its models start at features, and people give them samples."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.serverapp import Grid

from fedsub.engines.simulation import build_grid, build_strategy, train_method
from fedsub.report.methods import facts
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.refusals import refused
from fedsub_client.loaded_model import load_model
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.standardise import Scaling
from fedsub_core.data.watch import watch_federation
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.errors import ConfigError
from fedsub_core.methods import table
from fedsub_core.methods.card_parts import Training
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.models.kinds import mlp
from strategies.rounds.server_half import State


def people(count: int = 3) -> Federation:
    """Real smartwatch windows of a few people."""
    watch = watch_federation()
    return replace(watch, clients=dict(list(watch.clients.items())[:count]))


def means(federation: Federation) -> Federation:
    """Return the same people's channel means: feature vectors."""
    card = replace(federation.card, sampling_rate_hz=None)
    clients = {c: replace(data, x=data.x.mean(2)) for c, data in federation.clients.items()}
    return Federation(card, clients)


def inputs(state: State) -> int:
    """Return how many numbers of a sample the server's model sees."""
    return next(iter(state.values())).shape[-1]


def config(**keys: object) -> RunConfig:
    given = {"method": "fedavg", "beside": "", "rounds": 2, "device": "cpu", "threads": 1}
    return RunConfig(**(given | {"encoder": "kernels:20"} | keys))  # type: ignore[arg-type]


def outcome(run: RunConfig, grid: Grid) -> tuple[State, dict[Any, float]]:
    """Return the server's state after a run, and everybody's losses and scores."""
    rows: list[MetricRow] = []
    strategy = build_strategy(run, "fedavg")
    strategy.on_round = lambda round, state, new: rows.extend(new)
    strategy.start(grid)
    metrics = {row[:4]: row.value for row in rows if row.metric in ("loss", "macro_f1")}
    assert metrics and strategy.state
    return strategy.state, metrics


@pytest.mark.parametrize("kind", ["auto", "linear"])
def test_models_start_at_features_and_are_used_with_samples(kind: str, tmp_path: Path) -> None:
    federation, run = people(), config(model=kind, lr=0.03, epochs=10)
    shape = federation.card.shape_of(next(iter(federation.clients.values())).x)
    train_method(run, "fedavg", federation, tmp_path, lambda round: None)
    for client, data in federation.clients.items():
        model = load_model(tmp_path / "models" / f"{client}.safetensors")
        assert model.shape == shape and model.encoder == KernelsEncoder(20, 0, shape)
        assert model.architecture.input_shape == (100,)
        assert model.kind == ("mlp" if kind == "auto" else kind)
        assert (model.architecture == mlp(100, len(federation.card.classes))) is (kind == "auto")
        # Far better than chance, 1 of 7 classes, on what it was mostly trained on.
        found = model.probabilities(data.x).argmax(1)
        assert (found == data.y).mean() > 0.5


def test_a_person_is_tested_with_what_the_file_answers() -> None:
    federation, run = people(2), config(lr=0.1)
    strategy = build_strategy(run, "fedavg")
    with closing(build_grid(run, "fedavg", federation)) as grid:
        strategy.start(grid)
        (cohort,) = grid.cohorts
        scaling = strategy.memory.agreed.scaling if strategy.memory.agreed else None
        _, test = cohort.data.at(2, scaling)
        logits = cohort.learner.predict(cohort.state, test.x)
        params = cohort.learner.predicted_by(cohort.state)
        for i, client in enumerate(cohort.clients):
            model = cohort.personal_model(i, params, 2, scaling)
            found = model.probabilities(client.test_x)
            expected = logits[i, : test.counts[i]].softmax(1)
            assert torch.allclose(torch.from_numpy(found), expected, atol=1e-6)


def trained_on(name: str, run: RunConfig) -> tuple[Scaling | None, torch.Tensor]:
    """Return what a method's run standardised with, and all that its clients train on."""
    strategy = build_strategy(run, name)
    with closing(build_grid(run, name, people())) as grid:
        strategy.start(grid)
        assert strategy.memory.agreed
        shared = strategy.memory.agreed.scaling
        stacks = [cohort.data.at(2, shared)[0] for cohort in grid.cohorts]
        return shared, torch.cat([stack.x[stack.valid] for stack in stacks])


@pytest.mark.parametrize("standardise", ["federation", "federation-median", "client"])
def test_what_is_trained_on_is_centred_and_of_one_size(standardise: str) -> None:
    shared, x = trained_on("fedavg", config(standardise=standardise))
    plain = trained_on("fedavg", config(standardise="none"))[1]
    assert (shared is None) is (standardise == "client")
    far, plainly_far = ((of.mean(0).abs() / of.std(0)).mean() for of in (x, plain))
    assert far < 0.25 and plainly_far > 1
    assert 0.7 < x.std(0).mean() < 1.3 and x.abs().max() < 32


def test_closed_form_sees_whole_levels() -> None:
    run = config(method="fedsub-ridge", beside="fedavg")
    shared, x = trained_on("fedsub-ridge", run)
    assert shared is not None and shared.features is None
    assert x.dtype == torch.int8 and x.max() == 127


def test_devices_of_a_run_in_closed_form_say_what_the_methods_beside_it_need(
    tmp_path: Path,
) -> None:
    """Of what a device says of itself all methods of a run make use."""
    write_federation(tmp_path / "data", people(2))
    run = config(data=str(tmp_path / "data"), method="fedsub-ridge", beside="local,fedavg")
    with closing(build_grid(run, "fedavg", people(2))) as grid:
        ours = outcome(run, grid)[1]
    assert outcome(run, DeviceGrid(run, 2))[1] == ours


@pytest.mark.parametrize("standardise", ["federation-median", "client"])
def test_devices_compute_what_one_process_does(standardise: str, tmp_path: Path) -> None:
    """Each draws the encoder itself, from the run's seed and the shape of its own samples."""
    federation = people(2)
    write_federation(tmp_path / "data", federation)
    # As many stacks as clients: their training is then a device's, to the bit.
    run = config(data=str(tmp_path / "data"), seed=5, threads=2, standardise=standardise)
    with closing(build_grid(run, "fedavg", federation)) as grid:
        ours, our_metrics = outcome(run, grid)
    theirs, their_metrics = outcome(run, DeviceGrid(run, 2))
    assert ours.keys() == theirs.keys() and our_metrics == their_metrics
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    assert inputs(ours) == 100


def test_a_card_says_what_auto_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides alike: a model of another size would be refused."""
    monkeypatch.setitem(
        table.METHODS, "fedavg", replace(method("fedavg"), training=Training(encodes=True))
    )
    said = dict(facts(method("fedavg")))
    assert (
        said["encoder"]
        == "auto is kernels:100+statistics for windows, ranks:450 for feature vectors"
    )
    for of, features in ((people(2), 651), (means(people(2)), 456)):
        write_federation(tmp_path / f"{features}", of)
        run = config(data=str(tmp_path / f"{features}"), encoder="auto", rounds=1)
        assert inputs(outcome(run, DeviceGrid(run, 2))[0]) == features
    plain = replace(run, encoder="none")
    assert inputs(outcome(plain, DeviceGrid(plain, 2))[0]) == 6


def test_what_does_not_fit_the_samples_is_refused() -> None:
    federation = people(2)
    with refused(ConfigError, "relu:5", got="shape", expected="feature"):
        build_grid(config(encoder="relu:5"), "fedavg", federation)
    short = {
        c: replace(d, x=np.ascontiguousarray(d.x[..., :12])) for c, d in federation.clients.items()
    }
    with refused(ConfigError, expected=["windows [channels, time]", "16 samples"]):
        build_grid(config(), "fedavg", replace(federation, clients=short))
