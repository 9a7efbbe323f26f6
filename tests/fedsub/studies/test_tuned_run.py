"""Values of a run chosen on validation data: never by a tested sample, said wherever it is read."""

import json
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsub
from fedsub.studies.kept_study import grid_of
from fedsub.studies.run import train_methods
from fedsub.studies.tuned_run import _finite, study_of, tuned
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.client_data import PARTS
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError

from ..api.people import people

QUIET: dict[str, Any] = {"progress": False, "hidden": "8", "rounds": 2}


def config(**keys: Any) -> RunConfig:
    return read_config(None, {"method": "ditto", "beside": "", "hidden": "8", "rounds": 3, **keys})


def nobody(i: int, of: int, round: int) -> None:
    return None


def test_the_best_on_validation_data_is_used_and_said(tmp_path: Path) -> None:
    grid = {"lr": [1e-6, 0.2], "ditto": {"lam": [0.1, 1.0]}}
    run = fedsub.run(people(), "ditto", beside="local", tune=grid, out=str(tmp_path), **QUIET)
    assert run.config.lr == 0.2 and run.config.hyper["ditto"].lam in (0.1, 1.0)
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["tuned"]["chosen"]["lr"] == 0.2 and len(summary["tuned"]["tried"]) == 4
    said = "Chosen for ditto on a validation part, never on test samples: lr = 0.2"
    assert said in summary["done"]["paragraph"] and said in run.report.path.read_text("utf-8")
    assert (
        "At an end of the grid, where a wider one might give more: lr = 0.2"
        in (summary["done"]["paragraph"])
    )


def test_no_tested_sample_has_a_say() -> None:
    data = fedsub.federation(people())
    made, grid = config(), {"lr": [0.001, 0.05, 0.3]}
    given, flipped = {}, {}
    for name, one in data.clients.items():
        rows = split_client(one, data.card, made.split_settings)
        parts = np.full(len(one.y), PARTS.index("test"))
        parts[rows.train] = PARTS.index("training")
        y = one.y.copy()
        y[rows.test] = 1 - y[rows.test]
        given[name], flipped[name] = replace(one, parts=parts), replace(one, y=y, parts=parts)
    made = replace(made, split="given")
    found = [tuned(made, Federation(data.card, each), grid, nobody)[1] for each in (given, flipped)]
    assert found[0] == found[1]
    assert len({one["macro_f1"] for one in found[0]["tried"]}) > 1


def test_values_with_which_training_diverges_are_not_chosen() -> None:
    data = fedsub.federation(people())
    _, found = tuned(config(), data, {"lr": [0.05, 1e8]}, nobody)
    assert found["chosen"] == {"lr": 0.05}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["lrr=0.1,0.2"], "Did you mean 'lr'?"),
        (["lr=0.1,0.1"], "expected a list of values, each once"),
        (["lr=fast,0.1"], "lr: got 'fast', expected a number above 0"),
        (["apfl.alpha=0.1,0.2"], "got a key that ditto does not have"),
        (["seed=1,2"], "seed"),
        (["device=cpu,cuda"], "it changes no model"),
        (["rounds=2,5"], "for how long"),
        (["split=blocked,stratified"], "split"),
        (["lr"], "expected KEY=VALUE, such as lr=0.01,0.1"),
    ],
)
def test_grids_are_refused_by_key(texts: list[str], expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        study_of(config(), grid_of(texts))
    assert expected in str(error.value)


def test_grids_of_named_parts_keep_their_commas() -> None:
    found = grid_of(["optimiser=sgd,AdamW(betas=(0.8, 0.9))", "lr=0.1,1e-3", "schedule=linear(3)"])
    assert found["optimiser"] == ["sgd", "AdamW(betas=(0.8, 0.9))"] and found["lr"] == [0.1, 0.001]


def test_a_run_that_goes_on_has_its_values(tmp_path: Path) -> None:
    run = fedsub.run(
        people(), "local", beside="", tune={"lr": [0.01, 0.2]}, out=str(tmp_path), **QUIET
    )
    assert read_config(run.folder / "run.toml").lr == run.config.lr
    again = train_methods(run.config, fedsub.federation(people()), run.folder, lambda *done: None)
    assert again["tuned"]["chosen"] == {"lr": run.config.lr}


@pytest.mark.parametrize(("score", "written"), [(0.5, 0.5), (nan, None), (None, None)])
def test_a_candidate_without_a_finite_score_is_written_without_one(
    score: float | None, written: float | None
) -> None:
    assert _finite(score) == written
