"""What a simulated person's file predicts is what the run's metrics say of that person."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from fedsub.engines.simulation import save_models
from fedsub.testing.cover import device, of
from fedsub.testing.runs import Run, RunMethod, WholeRuns, people
from fedsub_client.loaded_model import load_model

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


class PredictionTests(WholeRuns):
    """What the files of everybody's models predict."""

    @of(device)
    def test_a_file_predicts_what_was_measured(
        self, name: str, run_method: RunMethod, tmp_path: Path
    ) -> None:
        run = run_method(name, FEDERATION, model="mlp")
        assert assert_predicts_what_was_measured(run, tmp_path) > 100
