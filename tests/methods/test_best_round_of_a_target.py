"""The best round at a target: that of the least error on a person's validation part."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedsub
from fedsub.engines.cohort_grid import CohortGrid
from fedsub.testing.runs import Run
from fedsub_client.evaluation import on_validation_parts
from fedsub_core.methods.table import METHODS
from fedsub_server.ending import read_ended

from .made_target import made

#: With so large a rate errors go up and down.
BEST: dict[str, Any] = {
    "best_by": "validation", "loss": "squared", "rounds": 6, "lr": 0.5, "hidden": "16",
    "batch_size": 8,
}  # fmt: skip
LEARN = [name for name, card in METHODS.items() if card.regression]
Runner = Callable[..., Run]


@pytest.mark.parametrize("name", LEARN)
def test_a_person_is_tested_with_the_model_of_the_least_error(
    name: str, run_method: Runner
) -> None:
    keys = BEST | {"lr": 0.04 if name == "pfedme" else BEST["lr"]}
    run = run_method(name, made(noise=3.0, samples=30), **keys)
    chosen, error = run.metric("best_round"), run.metric("validation_mae")
    assert {best for (round, _), best in chosen.items() if round == 1} == {1}
    for (round, client), best in chosen.items():
        if round > 1:
            before = round - 1, client
            assert error[round, client] <= error[before]
            assert best in (round, chosen[before])
            if best == chosen[before]:
                assert run.metric("mae")[round, client] == run.metric("mae")[before]
    if METHODS[name].trains:
        assert set(chosen.values()) > {1}, "a later round is better for somebody"


def test_tested_values_do_not_decide_the_round(run_method: Runner) -> None:
    def turn_values(grid: CohortGrid) -> None:
        for cohort in grid.cohorts:
            cohort.hold([replace(c, test_y=-c.test_y) for c in cohort.clients])

    true, false = (
        run_method("ditto", made(noise=3.0, samples=30), prepare=prepare, **BEST)
        for prepare in (None, turn_values)
    )
    for metric in ("best_round", "validation_mae"):
        assert true.metric(metric) == false.metric(metric)
    assert true.metric("mae") != false.metric("mae")
    assert set(true.metric("best_round").values()) != {6}, "always the newest"


def test_a_model_that_diverged_is_never_the_best(run_method: Runner) -> None:
    run = run_method("local", made(), **BEST | {"rounds": 1})
    (cohort,) = run.grid.cohorts
    broken = {n: torch.full_like(t, torch.nan) if t.is_floating_point() else t
              for n, t in cohort.state.items()}  # fmt: skip
    people = list(range(len(cohort.clients)))
    assert cohort.card.target is not None
    scores, _ = on_validation_parts(
        cohort.learner, cohort.data, None, people, broken, cohort.card.target.half
    )
    assert scores.tolist() == [-torch.inf] * len(people)


def test_patience_ends_a_run_whose_errors_fall_no_more(tmp_path: Path) -> None:
    run = fedsub.run(
        made(noise=3.0), "local", 30, loss="squared", best_by="validation", patience=2, lr=0.3,
        hidden="8", out=str(tmp_path), progress=False,
    )  # fmt: skip
    ended = read_ended(run.folder / "local")
    assert 2 < ended["round"] < 30 and "validation MAE went from" in ended["why"]
    page = run.report.path.read_text("utf-8")
    assert "so far, by MAE on a validation part" in page
