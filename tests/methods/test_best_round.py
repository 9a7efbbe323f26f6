"""Each person's best round by a validation part: what is chosen, tested, kept and used."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_strategy, split_clients, train_method
from fedsub.testing import battery
from fedsub.testing.cover import turns
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.runs import Run, assert_equal
from fedsub.testing.tested_model_tests import BEST, REACHED_BY, BestRoundTests, crowd
from fedsub_client.loaded_model import load_model
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import write_federation
from fedsub_core.methods.table import HOUSE
from fedsub_core.metrics import MetricRow
from fedsub_server.run_folder import DATABASE_FILE, MODELS
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method
from fedsub_server.tables import REACHED, legend, text_table

Runner = Callable[..., Run]
TestBestRounds = battery(*HOUSE, parts=(BestRoundTests,), cover=True)


def test_tested_labels_do_not_decide_the_round(run_method: Runner) -> None:
    def turn_labels(grid: CohortGrid) -> None:
        for cohort in grid.cohorts:
            cohort.hold([replace(c, test_y=(c.test_y + 1) % 3) for c in cohort.clients])

    true = run_method("ditto", crowd(), **BEST)
    false = run_method("ditto", crowd(), prepare=turn_labels, **BEST)
    for metric in ("best_round", "validation_macro_f1"):
        assert true.metric(metric) == false.metric(metric)
    assert true.metric("accuracy") != false.metric("accuracy")
    assert set(true.metric("best_round").values()) != set(range(1, 7)), "always the newest"


@pytest.mark.parametrize("name", ["fedavg", "ditto"])
def test_the_saved_model_is_the_one_that_was_tested(name: str, tmp_path: Path) -> None:
    federation = crowd()
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **BEST)
    train_method(config, name, federation, tmp_path / name, lambda round: None)
    with RunDatabase(tmp_path / name / DATABASE_FILE) as database:
        last = {
            (row.client, row.metric): row.value
            for row in database.metrics()
            if row.round == config.rounds and row.label is None
        }
        summary = summarise_method(database, None)
    rounds = []
    for client in split_clients(config.split_settings, federation):
        model = load_model(tmp_path / name / MODELS / f"{client.client}.safetensors")
        right = model.probabilities(client.test_x).argmax(1) == client.test_y
        assert np.mean(right) == last[client.client, "accuracy"]
        assert model.round == last[client.client, "best_round"]
        rounds.append(model.round)
    assert min(rounds) < config.rounds, "always the newest"
    assert (summary.best_by, summary.best_round) == ("validation", median(rounds))
    assert f"{summary.tested}, round {median(rounds):g}*" in text_table([summary], REACHED)
    assert summary.tested_words.endswith(f"by validation (median {median(rounds):g} of 6)")
    assert any(
        line.startswith("* Tested is each person's best round") for line in legend([summary])
    )


@pytest.mark.parametrize("name", ["fedavg", "ditto"])
def test_a_run_that_goes_on_chooses_the_same(name: str, run_method: Runner) -> None:
    whole = run_method(name, crowd(), **BEST)
    begun = run_method(name, crowd(), until=3, **BEST)
    ended = run_method(name, crowd(), after=begun, **BEST)
    chosen = whole.metric("best_round")
    assert begun.metric("best_round") | ended.metric("best_round") == chosen
    assert any(chosen[6, client] <= 3 for client in ("p1", "p2", "p3", "p4")), "none kept"
    for client, model in ended.models().items():
        assert_equal(model, whole.models()[client])


@pytest.mark.parametrize(("drawn", "name"), turns([0, 2], ["fedavg", "ditto"]))
def test_devices_choose_what_a_simulation_does(
    name: str, drawn: int, run_method: Runner, tmp_path: Path
) -> None:
    federation = crowd()
    write_federation(tmp_path, federation)
    keys = {**BEST, "clients_per_round": drawn, "data": str(tmp_path)}
    run = run_method(name, federation, **keys)
    config = RunConfig(method=name, beside="", threads=1, batch_size=16, **keys)
    strategy, grid = build_strategy(config, name), DeviceGrid(config, len(federation.clients))
    rows: list[MetricRow] = []
    strategy.on_round = lambda round, state, found: rows.extend(found)
    strategy.start(grid)
    for metric in ("best_round", "validation_macro_f1", *REACHED_BY):
        theirs = {(row.round, row.client): row.value for row in rows if row.metric == metric}
        assert theirs == pytest.approx(run.metric(metric)), metric
    devices = {saved.client: saved for saved in map(grid.saved, range(4))}
    for client, model in run.models().items():
        saved = devices[client]
        assert saved.model is not None
        assert saved.model.round == run.metric("best_round")[6, client]
        for key, tensor in model.items():
            torch.testing.assert_close(saved.model.params[key], tensor, atol=1e-6, rtol=0)


def test_who_has_too_few_samples_is_tested_with_the_newest(run_method: Runner) -> None:
    federation = crowd()
    few = federation.clients["p2"]
    rows = np.sort(np.concatenate([np.flatnonzero(few.y == label)[:2] for label in range(3)]))
    federation = replace(federation, clients=federation.clients | {"p2": few.part(rows)})
    run = run_method("ditto", federation, **BEST)
    chosen = run.metric("best_round")
    assert [chosen[round, "p2"] for round in range(1, 7)] == [1, 2, 3, 4, 5, 6]
    told = {client for _, client in run.metric("validation_macro_f1")}
    assert told == {"p1", "p3", "p4"}


def test_without_the_choice_nothing_is_held_back_or_kept(run_method: Runner) -> None:
    run = run_method("ditto", crowd())
    assert all(c.validation is None for cohort in run.grid.cohorts for c in cohort.clients)
    assert not any(key.startswith("best") for key in run.client_state("p1"))
    assert not run.metric("best_round")
    assert read_config(None, {}).best_by == "last"
