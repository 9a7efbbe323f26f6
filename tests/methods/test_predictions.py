"""What a simulated person's file predicts is what the run's metrics say of that person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from fedsub.engines.simulation import save_models
from fedsub_client.loaded_model import load_model
from fedsub_core.errors import RunError

from .method_runs import Run, every_method, people

FEDERATION = people(((0, 1, 2), (0, 1), (0, 1, 2), (1, 2)))


def assert_predicts_what_was_measured(run: Run, folder: Path) -> int:
    """Return how many test samples were predicted."""
    save_models(run.grid, run.strategy, folder)
    measured = {m: run.metric(m) for m in ("accuracy", "macro_f1", "loss")}
    last, tested = run.strategy.finished_rounds, 0
    for cohort in run.grid.cohorts:
        for client in cohort.clients:
            held = client.at(last)
            model = load_model(folder / f"{client.client}.safetensors")
            found = model.probabilities(held.test_x)
            label, y = found.argmax(1), held.test_y
            own = {
                "accuracy": (label == y).mean(),
                "macro_f1": f1_score(y, label, average="macro"),
                "loss": -np.log(found[np.arange(len(y)), y].astype(float)).mean(),
            }
            for metric, value in own.items():
                expected = measured[metric][last, client.client]
                assert value == pytest.approx(expected, abs=1e-5), (client.client, metric)
            tested += len(y)
    return tested


@every_method
def test_of_every_method(name: str, run_method: Callable[..., Run], tmp_path: Path) -> None:
    run = run_method(name, FEDERATION, model="mlp")
    assert assert_predicts_what_was_measured(run, tmp_path) > 100


@pytest.mark.parametrize("standardise", ["federation-median", "client", "none"])
def test_however_features_are_standardised(
    standardise: str, run_method: Callable[..., Run], tmp_path: Path
) -> None:
    run = run_method("fedsub", FEDERATION, standardise=standardise)
    assert assert_predicts_what_was_measured(run, tmp_path) > 100


def test_what_was_tested_with_more_than_a_model_is_not_used(
    run_method: Callable[..., Run], tmp_path: Path
) -> None:
    hyper: dict[str, Any] = {"predict": "nearest"}
    run = run_method("fedproto", FEDERATION, hyper=hyper)
    save_models(run.grid, run.strategy, tmp_path)
    with pytest.raises(RunError, match=r"client 'p1': got a model without the prototypes of"):
        load_model(tmp_path / "p1.safetensors")
