"""Which model of a person is tested, whatever the method: as filed, of the best round, a mean."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from fedsub.engines.saved_models import save_models
from fedsub.testing.cover import device, of
from fedsub.testing.runs import (
    Run,
    RunMethod,
    WholeRuns,
    assert_equal,
    assert_equal_models,
    people,
    plain,
)
from fedsub_client.loaded_model import load_model
from fedsub_client.mean_models import KNOWN, MEAN
from fedsub_core.methods.table import METHODS

FEDERATION = people(((0, 1, 2), (0, 1), (0, 1, 2), (1, 2)))


def assert_predicts_what_was_measured(run: Run, folder: Path) -> int:
    """Return the number of test samples that were predicted."""
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


BEST: dict[str, Any] = {"best_by": "validation", "rounds": 6, "lr": 0.3}
#: What a person's tested model reaches, by which it can be told from another one.
REACHED_BY = ("macro_f1", "accuracy", "loss")


def crowd() -> Any:
    """Return people whose classes lie so near that their scores go up and down."""
    made = people(samples=16)
    return replace(made, clients={n: replace(c, x=c.x * 0.5) for n, c in made.clients.items()})


class BestRoundTests(WholeRuns):
    """What is tested where a validation part chooses."""

    @of(device)
    def test_a_person_is_tested_with_the_best_model_so_far(
        self, name: str, run_method: RunMethod
    ) -> None:
        run = run_method(name, crowd(), **{**BEST, "rounds": 4, "lr": 0.05})
        chosen, validation = run.metric("best_round"), run.metric("validation_macro_f1")
        assert {chosen[1, c] for c in ("p1", "p2", "p3", "p4")} == {1}
        for (round, client), best in chosen.items():
            if round == 1:
                continue
            before = round - 1, client
            assert validation[round, client] >= validation[before]
            assert best in (round, chosen[before])
            if best == chosen[before]:
                for metric in REACHED_BY:
                    values = run.metric(metric)
                    assert values[round, client] == values[before], (metric, round, client)


#: Of a person's past, as much as a run so short takes.
SMOOTH = 0.9


class TestedTests(WholeRuns):
    """Either the received or the trained model is tested, also of people who did not train."""

    @of(device)
    def test_who_was_not_drawn_yet_is_tested_with_what_it_would_start_from(
        self, name: str, run_method: RunMethod
    ) -> None:
        keys = {"rounds": 3, "clients_per_round": 1}
        sent, run = (
            run_method(name, hyper={"tested": tested}, **keys) for tested in ("received", "trained")
        )
        there, trained = set(people().clients), set[str]()
        for round, uploads in enumerate(run.uploads, 1):
            trained |= set(uploads)
            for client in there - trained:
                assert run.metric("loss")[round, client] == sent.metric("loss")[round, client]
        ours, theirs = run.models(), sent.models()
        for client in there - trained:
            assert_equal(ours[client], theirs[client])
        # What the server remembers of who trained outlives its process, and is forgotten on wish.
        again = run_method(name, hyper={"tested": "trained"}, after=run, **keys)
        assert again.strategy.memory.trained == trained
        again.strategy.forget(min(trained))
        assert again.strategy.memory.trained == trained - {min(trained)}

    @of(device)
    def test_either_model_can_be_tested(self, name: str, run_method: RunMethod) -> None:
        first = METHODS[name].agreed().tested
        other = "received" if first == "trained" else "trained"
        runs = {first: plain(name), other: run_method(name, hyper={"tested": other})}
        assert_equal(runs["received"].states[-1], runs["trained"].states[-1])
        asked = {tested: bool(run.metric("bytes_evaluation_sent")) for tested, run in runs.items()}
        assert asked == {"received": True, "trained": False}, (
            "trained models are tested in training"
        )
        assert all(len(run.metric("loss")) == 3 * 4 for run in runs.values())


class MeanTests(WholeRuns):
    """Whole runs with ``smooth``."""

    @of(device)
    def test_means_over_rounds_predict_and_change_nothing_that_trains(
        self, name: str, run_method: RunMethod
    ) -> None:
        by_default = METHODS[name].agreed().smooth == 0.0
        usual = plain(name) if by_default else run_method(name, hyper={"smooth": 0.0})
        run = run_method(name, hyper={"smooth": SMOOTH})
        assert_equal(run.lasting, usual.lasting)
        theirs = run.models()
        for client, model in usual.models().items():
            kept = run.client_state(client)
            means = {key for key in kept if key.startswith(MEAN)}
            assert means, "no mean is kept"
            rest = {key: kept[key] for key in kept.keys() - means if key != KNOWN}
            assert_equal(rest, usual.client_state(client))
            assert any(not torch.equal(theirs[client][key], t) for key, t in model.items())
        losses = usual.metric("loss")
        assert all(math.isfinite(run.metric("loss")[key]) for key in losses)
        for key, loss in losses.items():
            same = run.metric("loss")[key] == loss
            assert same == (key[0] == 1), "the mean of one round is its model, of two it is not"

        half = run_method(name, until=2, hyper={"smooth": SMOOTH})
        resumed = run_method(name, after=half, hyper={"smooth": SMOOTH})
        assert_equal_models(resumed, run)
        for client in theirs:
            assert_equal(resumed.client_state(client), run.client_state(client))
