"""Targets: a known answer is found, sums are those of least squares, classes are refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.studies.run import data_notes
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.refusals import refused
from fedsub.testing.runs import Run, RunMethod, people
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sums import statistics
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.standardise import moments
from fedsub_core.errors import ConfigError, MessageRefused, RunError
from fedsub_core.methods.table import METHODS
from fedsub_core.metrics import MetricRow
from fedsub_core.target_errors import read_target_errors, target_errors
from fedsub_core.version import VERSION
from fedsub_core.wire.greeting import check_run
from fedsub_core.wire.handshake import Facts, Introduction

from .made_target import made

LEARN = [name for name, card in METHODS.items() if card.regression]
#: Of methods that make few steps a round, or bound their rate.
RATES = {"fedsgd": 0.6, "pfedme": 0.04}
KEYS: dict[str, Any] = {"loss": "squared", "hidden": "16", "lr": 0.2, "batch_size": 8}


def reached(run: Run, metric: str) -> list[float]:
    values = run.metric(metric)
    last = max(round for round, _ in values)
    return [value for (round, _), value in values.items() if round == last]


@pytest.mark.parametrize("name", LEARN)
def test_a_linear_target_is_learnt(name: str, run_method: RunMethod) -> None:
    run = run_method(name, made(), rounds=12, **KEYS | {"lr": RATES.get(name, 0.2)})
    assert min(reached(run, "r2")) > (0.6 if name in RATES else 0.9)
    assert not run.metric("macro_f1")
    mae, rmse = (np.array(reached(run, metric)) for metric in ("mae", "rmse"))
    assert (mae > 0).all() and (mae <= rmse).all()


def test_a_mixture_is_better_than_alone_and_than_everybodys(run_method: RunMethod) -> None:
    """People differ by a constant, and have noise: each has something to say of the others."""
    each = {
        heads: run_method(
            "fedsub-ridge", made(4.0, 1.0, samples=20, people=8), {"heads": heads}, **KEYS
        )
        for heads in ("own", "everybody", "mixed")
    }
    rmse = {heads: float(np.mean(reached(run, "rmse"))) for heads, run in each.items()}
    assert rmse["mixed"] < min(rmse["own"], rmse["everybody"])


def test_sums_under_masks_say_the_same(run_method: RunMethod) -> None:
    plain = run_method("fedsub-ridge", made(), rounds=4, **KEYS)
    masked = run_method(
        "fedsub-ridge", made(), rounds=6, robust="none", secure_aggregation=True, **KEYS
    )
    np.testing.assert_allclose(reached(masked, "r2"), reached(plain, "r2"), atol=0.02)


def test_an_old_sample_counts_less_and_is_accepted(run_method: RunMethod) -> None:
    run = run_method("fedsub-ridge", made(), {"forgetting": 0.98}, **KEYS)
    assert min(reached(run, "r2")) > 0.9


def test_a_linear_head_is_found_to_the_last_digits() -> None:
    """Places that are sums of features of sixteen levels: sums are exact, and so is the head."""
    x = np.random.default_rng(0).integers(-2, 3, (200, 3)) / 8
    w = np.array([1.0, -1.0, 2.0])
    a, b = Scale(np.zeros(3), np.ones(3)).moments(statistics(x, (x @ w).astype(np.float32), 2))
    np.testing.assert_allclose(np.linalg.solve(a, b)[:, 1], [*w, 0.0], atol=1e-6)


def test_the_order_of_people_changes_no_bit(run_method: RunMethod) -> None:
    federation = made(0.3)
    other = Federation(federation.card, dict(reversed(list(federation.clients.items()))))
    first, second = (run_method("fedsub-ridge", one, **KEYS) for one in (federation, other))
    assert first.metric("mae") == second.metric("mae")


def test_of_a_constant_target_r2_is_none() -> None:
    y = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, -0.5]])
    outputs = torch.stack([-y, y], 2) + torch.tensor([0.0, 0.2])
    constant, other = target_errors(outputs, y, (2, 3), half=10.0)
    assert constant.numbers.keys() == {"mae", "rmse", "loss", "examples"}
    assert constant.mae == pytest.approx(1.0) and other.rmse == pytest.approx(1.0)
    assert other.r2 == pytest.approx(1 - 0.03 / 0.5)


def test_who_diverged_has_an_r2_that_shows_it() -> None:
    y = torch.tensor([[0.0, 0.5, -0.5]])
    (lost,) = target_errors(torch.full((1, 3, 2), math.nan), y, (3,), half=10.0)
    assert math.isnan(lost.numbers["r2"]) and math.isnan(lost.numbers["mae"])


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"method": "fedsub", "beside": "local"}, ["fedsub", "fedavg"]),
        ({"method": "fedproto", "beside": "protohar"}, ["fedproto", "protohar"]),
        ({"method": "fedsub-ridge", "beside": "", "loss": "huber"}, ["fedsub-ridge", "squared"]),
        ({"method": "fedsub-ridge", "beside": "", "fedsub-ridge.groups": "class"}, ["class"]),
        ({"method": "fedavg", "beside": "", "unlabelled": 0.5}, ["unlabelled", "0.5"]),
    ],
)
def test_what_needs_classes_is_refused(keys: dict[str, Any], named: list[str]) -> None:
    with refused(ConfigError, *named, "loss"):
        read_config(None, {"loss": "squared"} | keys)


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_data_of_the_other_kind_are_refused(loss: str, run_method: RunMethod) -> None:
    other = people() if loss == "squared" else made()
    with refused(ConfigError, other.card.name, got=loss):
        run_method("fedavg", other, loss=loss)


def test_a_huber_loss_is_less_moved_by_a_few_wild_samples(run_method: RunMethod) -> None:
    clients = made().clients
    for data in clients.values():
        data.y[::9] = 20.0
    wild = Federation(made().card, clients)
    squared, huber = (
        run_method("local", wild, rounds=12, **KEYS | {"loss": loss})
        for loss in ("squared", "huber(delta=0.02)")
    )
    assert np.mean(reached(huber, "mae")) < np.mean(reached(squared, "mae"))


@pytest.mark.parametrize("delta", ["0", "-1", "wide"])
def test_a_delta_above_0_is_demanded(delta: str, run_method: RunMethod) -> None:
    with refused(ConfigError, "delta"):
        run_method("local", made(), loss=f"huber(delta={delta})")


@pytest.mark.parametrize(
    "record",
    [
        {"macro_f1": 1.0, "weighted_f1": 1.0, "accuracy": 1.0, "loss": 0.1, "examples": 3},
        {"mae": -1.0, "rmse": 1.0, "r2": 0.5, "loss": 0.1, "examples": 3},
        {"mae": 1.0, "rmse": 1.0, "r2": 1.5, "loss": 0.1, "examples": 3},
        {"mae": 1.0, "rmse": 1.0, "r2": 0.5, "loss": 0.1, "examples": 0},
        {"mae": "low", "rmse": 1.0, "r2": 0.5, "loss": 0.1, "examples": 3},
        {"mae": 1.0, "rmse": 1.0, "r2": 0.5, "loss": 0.1, "examples": 3, "best_round": 4},
        {"mae": 1.0, "rmse": 1.0, "r2": 0.5, "loss": 0.1, "examples": 3, "validation_mae": -1},
    ],
)
def test_errors_that_are_none_are_refused(record: dict[str, Any]) -> None:
    with refused(MessageRefused, client="ann", round=3):
        read_target_errors(record, "ann", 3)


@pytest.mark.parametrize("y", [20.0, -20.0])
def test_values_at_an_end_are_no_class_that_nobody_tests(y: float) -> None:
    clients = made().clients
    for data in clients.values():
        data.y[0] = y
    config = read_config(None, {"method": "fedavg", "beside": "", "loss": "squared"})
    assert not [said for said in data_notes(config, Federation(made().card, clients)).warnings]


@pytest.mark.parametrize("name", ["fedavg", "fedsub-ridge"])
def test_devices_say_what_the_simulation_says(
    name: str, tmp_path: Path, run_method: RunMethod
) -> None:
    write_federation(tmp_path / "made", made(0.5))
    few = {"rounds": 3, "device": "cpu", "threads": 1}
    config = RunConfig(method=name, beside="", data=str(tmp_path / "made"), **KEYS | few)
    rows: list[MetricRow] = []
    strategy = build_strategy(config, name)
    strategy.on_round = lambda round, state, new: rows.extend(new)
    strategy.start(DeviceGrid(config, 4))
    ours = {row.client: row.value for row in rows if (row.round, row.metric) == (3, "mae")}
    simulated = run_method(name, made(0.5), **KEYS).metric("mae")
    assert ours == pytest.approx({client: simulated[3, client] for client in ours}, rel=1e-5)
    assert len(ours) == 4


@pytest.mark.parametrize("name", ["fedavg", "fedsub-ridge"])
@pytest.mark.parametrize("regression", [True, False])
def test_devices_with_the_other_kind_of_data_take_no_part(
    name: str, regression: bool, tmp_path: Path
) -> None:
    """A server cannot see their files: they refuse, and so would it what they say of themselves."""
    write_federation(tmp_path / "other", people() if regression else made())
    loss = "squared" if regression else "cross-entropy"
    keys = KEYS | {"loss": loss, "join_timeout": 0.1}
    config = RunConfig(method=name, beside="", data=str(tmp_path / "other"), **keys)
    with pytest.raises(RunError, match="0 of at least 1"):
        build_strategy(config, name).start(DeviceGrid(config, 4))
    classes = ("sit", "walk") if regression else made().card.classes
    said = Introduction("ann", VERSION, classes, (4,), Facts(9), moments(np.zeros((9, 4))))
    with refused(MessageRefused, client="ann", what="classes", got=classes[0]):
        check_run(said, of_sums=False, regression=regression)


def test_training_that_diverges_shows_and_does_not_stop_a_run(run_method: RunMethod) -> None:
    run = run_method("local", made(), rounds=3, **KEYS | {"lr": 1e6})
    assert not np.isfinite(reached(run, "loss")).any() or min(reached(run, "loss")) > 1e3
