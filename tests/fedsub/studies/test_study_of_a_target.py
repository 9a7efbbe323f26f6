"""Studies of a target: the least error is best, in tables, on the page and among tuned values."""

import csv
import json
from dataclasses import replace
from functools import partial
from math import isnan, nan
from pathlib import Path

import pytest

import fedsub
from fedsub.studies.engine import SECONDS_FILE
from fedsub.studies.kept_runs import RUNS
from fedsub.studies.latex import latex
from fedsub.studies.results_file import write_results
from fedsub.studies.runner import choose, final_tasks
from fedsub.studies.study import Study, Task
from fedsub.studies.study_file import read_study
from fedsub.studies.study_page import write_study_page
from fedsub.studies.study_results import finished, tables
from fedsub.studies.study_tables import plain_tables, write_tables
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError

from ...methods.made_target import made as made_target
from ..report.made_runs import PEOPLE, make_run
from .made_studies import nothing_tuned

STUDY = """
seeds = [0, 1]
show = ["rounds-to-mae-3.5", "rounds-to-r2-0.6"]
[run]
rounds = 2
loss = "squared"
[methods]
fedavg = {}
local = {}
"""
#: Mean absolute errors by method and round.
ERRORS = {"fedavg": (4.0, 3.0), "local": (6.0, 5.0)}
MORE = (*PEOPLE, "fay", "gus")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "pulse.toml").write_text(STUDY)
    return read_study(tmp_path / "pulse.toml")


def made(study: Study, folder: Path, diverged: str = "") -> None:
    """Write runs in which the person at a place is off by a tenth more than the one before.

    The first person's model of the method `diverged` has no finite error.
    """
    for task in final_tasks(study, nothing_tuned(study)):
        errors = ERRORS[task.method]
        lost = {0: nan} if task.method == diverged else {}
        score = partial(lambda e, lost, r, i: e[r - 1] + lost.get(i, 0.1 * i), errors, lost)
        run = make_run(
            folder / RUNS / task.name,
            {task.method: score},
            rounds=2,
            people=MORE,
            keys={"loss": "squared"},
            target=True,
        )
        (run / SECONDS_FILE).write_text("1.0")


def test_the_least_error_is_first_and_a_smaller_one_is_a_gain(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    ((_, rows),) = tables(study, runs)
    assert [row.entry.label for row in rows] == ["fedavg", "local"]
    first = rows[0]
    assert (first.score, first.worst) == (pytest.approx(3.25), pytest.approx(3.45))
    assert first.interval is not None and first.interval[0] < 3.25 < first.interval[1]
    assert first.means["r2"] == pytest.approx(0.675) and first.twin == "local"
    assert first.gain == pytest.approx(2.0) and first.worse == 0
    assert first.gain_interval == (pytest.approx(2.0), pytest.approx(2.0))
    assert first.measures == {"rounds-to-mae-3.5": 2, "rounds-to-r2-0.6": 2}
    assert rows[1].measures == {"rounds-to-mae-3.5": None, "rounds-to-r2-0.6": None}
    text = write_tables(study, tmp_path, runs)
    assert "| method | tested | MAE | 90 % | gain over local | worse | RMSE | R2 | loss |" in text
    assert "F1" not in text and "how much less MAE than people have without others" in text
    assert "| fedavg | received | 3.25 (3.117 to 3.383) | 3.45 | +2 (+2 to +2) | 0% |" in text
    assert (tmp_path / "people.csv").read_text().startswith("label,seed,client,mae\n")
    assert r"\textbf{3.25}" in latex(study, tables(study, runs), runs)
    (plain,) = plain_tables(study, runs)
    assert plain["rows"][0]["mae"] == pytest.approx(3.25) and "macro_f1" not in plain["rows"][0]
    assert plain["rows"][0]["p90"] == pytest.approx(3.45)


def test_a_study_in_which_nobody_has_an_r2_says_so(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    every = finished(study, tmp_path, nothing_tuned(study))
    runs = [replace(run, summary=replace(run.summary, r2=None)) for run in every]
    ((_, rows),) = tables(study, runs)
    assert [row.means["r2"] for row in rows] == [None, None]
    assert "nan" not in (text := write_tables(study, tmp_path, runs)) and "| - |" in text
    assert "nan" not in latex(study, tables(study, runs), runs)


def test_a_method_that_diverged_is_last_and_worse_for_who_diverged(
    study: Study, tmp_path: Path
) -> None:
    made(study, tmp_path, "fedavg")
    runs = finished(study, tmp_path, nothing_tuned(study))
    ((_, rows),) = tables(study, runs)
    assert [row.entry.label for row in rows] == ["local", "fedavg"]
    assert isnan(rows[1].score) and rows[1].worse == pytest.approx(1 / len(MORE))
    assert "| fedavg |" in write_tables(study, tmp_path, runs)


def test_its_results_file_has_its_own_columns(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    write_results(study, runs, tmp_path / "pulse.csv")
    with (tmp_path / "pulse.csv").open(newline="", encoding="utf-8") as text:
        first, second = csv.DictReader(text)
    assert (first["MAE"], first["90 %"], first["R2"]) == ("3.25", "3.45", "0.675")
    assert (first["gain"], first["gain: low"], second["gain"]) == ("+2", "+2", "-")
    assert not any("F1" in title for title in first)


def test_its_page_draws_errors_and_says_who_is_better(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    page = write_study_page(study, tmp_path, runs).read_text("utf-8")
    assert (
        "Least MAE: fedavg, 3.25; better than local, by the interval: fedavg; worse: none." in page
    )
    figures = {path.name for path in (tmp_path / "figures").glob("*.png")}
    assert figures == {"mae.png", "r2.png", "loss.png", "gains.png"}
    assert "macro F1" not in page


@pytest.mark.parametrize(
    "vary", ['loss = "cross-entropy"', 'loss = "focal(gamma=2)"\n[[vary]]\nloss = "huber"']
)
def test_classes_and_a_target_stand_in_no_study_together(vary: str, tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text(f"{STUDY}[[vary]]\n{vary}\n")
    with refused(ConfigError, "loss", got=vary.splitlines()[0].split('"')[1]):
        read_study(tmp_path / "both.toml")


def test_values_of_the_least_error_are_chosen(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pulse.toml").write_text(f"{STUDY}[tune]\nlr = [0.01, 0.1, 0.2]\n")
    tuned = read_study(tmp_path / "pulse.toml")
    reached = {0.01: (3.0, 0.2), 0.1: (2.0, 0.1), 0.2: (float("nan"), float("nan"))}

    class Reached:
        def __init__(self, folder: Path, task: Task) -> None:
            self.mae, self.loss = reached[task.config.lr]

    monkeypatch.setattr("fedsub.studies.runner.summary", Reached)
    assert {values["lr"] for values in choose(tuned, tmp_path).values()} == {0.1}


def test_a_real_study_tunes_and_compares(tmp_path: Path) -> None:
    write_federation(tmp_path / "sums", made_target(noise=0.5))
    found = fedsub.compare(
        tmp_path / "sums", "fedsub-ridge,local", 2, loss="squared", hidden="8",
        tune={"lr": [1e-6, 0.2]}, folder=tmp_path / "study", jobs=1, progress=False,
    )  # fmt: skip
    assert list(found.table["mae"]) == sorted(found.table["mae"])
    assert found.table.loc["local", "tuned"] == "lr=0.2"
    assert found.table.loc["fedsub-ridge", "gain"] > 0
    assert {"mae_low", "rmse", "r2", "p90"} <= set(found.table.columns)
    assert set(found.people.columns) == {"row", "seed", "person", "mae"}
    assert "mae" in found._repr_html_()


def test_a_run_chooses_by_the_least_error(tmp_path: Path) -> None:
    run = fedsub.run(
        made_target(noise=0.5), "fedavg", 3, beside="local", loss="squared", hidden="8",
        tune={"lr": [1e-6, 0.2]}, out=str(tmp_path), progress=False,
    )  # fmt: skip
    assert run.config.lr == 0.2
    kept = json.loads((run.folder / "tuned.json").read_text())
    least = min(kept["tried"], key=lambda one: one["mae"])
    assert least["values"] == kept["chosen"] == {"lr": 0.2}
    assert f"lr = 0.2 (of 1e-06, 0.2), MAE {least['mae']:.4g} there" in run.report.path.read_text()
