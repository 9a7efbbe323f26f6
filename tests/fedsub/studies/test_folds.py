"""Folds of a study: runs that differ in what is tested share a row; none tunes on what it tests."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import fedsub
from fedsub.cli import cli
from fedsub.studies.folds import folds_of, read_folds
from fedsub.studies.kept_study import as_asked
from fedsub.studies.study import task_of, tasks, tuning_tasks
from fedsub.studies.study_file import read_study
from fedsub.studies.tuning import tuning_run
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.split_client import split_client
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import ConfigError, DataError

STUDY = """
folds = {folds}
[run]
data = "people"
split = "{split}"
unseen-rounds = 1
rounds = 3
[methods]
local = {{}}
fedavg = {{}}
[tune]
lr = [0.01, 0.05]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_federation(tmp_path / "people", people(samples=30))
    return tmp_path


def study_of(place: Path, folds: str, split: str = "stratified") -> Any:
    (place / "small.toml").write_text(STUDY.format(folds=folds, split=split))
    return read_study(place / "small.toml")


def test_folds_are_runs_of_their_own_which_share_a_row(place: Path) -> None:
    study = study_of(place, "3")
    runs = list(tasks(study, lambda entry, cell: {}))
    assert len(runs) == len({task.name for task in runs}) == 6
    assert {task.config.fold for task in runs} == {"1/3", "2/3", "3/3"}
    assert len(list(tuning_tasks(study))) == 2 * 2 * 3
    asked = {"seeds": None, "rounds": None, "folds": "2"}
    assert as_asked(study, asked).folds == 2


def test_people_are_left_out_once_each_and_groups_as_named(place: Path) -> None:
    federation, names = people(samples=30), sorted(people().clients)
    each = [dict(fold) for fold in study_of(place, '"person"').folds_of(())]
    assert each == [{"split": "unseen", "unseen-people": name} for name in names]
    two = study_of(place, "2", "unseen").folds_of(())
    groups = [set(str(dict(fold)["unseen-people"]).split(",")) for fold in two]
    assert groups[0] | groups[1] == set(names) and not groups[0] & groups[1]
    sites = f'["{names[0]},{names[1]}", "{names[2]}"]'
    assert [dict(f)["unseen-people"] for f in study_of(place, sites).folds_of(())] == [
        ",".join(names[:2]),
        names[2],
    ]
    with refused(DataError, "folds", got=len(federation.clients), expected=99):
        folds_of(99, str(place / "people"), "unseen")


@pytest.mark.parametrize("folds", [1, -2, "persons", ["a"], ["a,b", "b"], ["a", 3], 2.5, True])
def test_what_is_no_fold_is_refused(folds: Any) -> None:
    with refused(ConfigError, "folds"):
        read_folds(Path("study.toml"), folds)


def test_a_key_that_folds_set_is_refused_beside_them(place: Path) -> None:
    study_of(place, "2")
    text = (place / "small.toml").read_text().replace("rounds = 3", 'rounds = 3\nfold = "1/2"', 1)
    (place / "small.toml").write_text(text)
    with refused(ConfigError, "fold", "folds"):
        read_study(place / "small.toml")


@pytest.mark.parametrize("folds", ["3", '"person"'])
def test_values_are_chosen_without_what_the_fold_tests(place: Path, folds: str) -> None:
    study, federation = study_of(place, folds), people(samples=30)
    for fold in study.folds_of(()):
        config = task_of(study, study.entries[1], (), 0, {}, tuning=True, fold=fold).config
        part, again = tuning_run(federation, config)
        assert not again.fold and not again.unseen_people
        for name in federation.clients:
            if name in config.kept_out:
                assert name not in part.clients
                continue
            divided = split_client(federation.clients[name], federation.card, config.split_settings)
            rows = federation.clients[name].x[divided.train]
            np.testing.assert_array_equal(part.clients[name].x, rows)


def test_a_person_who_is_left_out_is_served_as_a_newcomer(tmp_path: Path) -> None:
    """It reaches in a run that leaves it out what `adapt` reaches on a run that never saw it."""
    town = people(((0, 1, 2),) * 5, samples=40)
    settings: dict[str, Any] = {"beside": "", "encoder": "relu:12", "progress": False}
    settings |= {"standardise": "federation", "robust": "none"}
    left_out: dict[str, Any] = {
        "split": "unseen",
        "unseen_people": "p5",
        "unseen_labels": 2,
        "unseen_rounds": 1,
    }
    run = fedsub.run(town, "fedsub-ridge", rounds=4, out=str(tmp_path), **settings, **left_out)
    others = {name: one for name, one in town.clients.items() if name != "p5"}
    before = fedsub.run(
        replace(town, clients=others), "fedsub-ridge", rounds=3, out=str(tmp_path), **settings
    )
    one = Federation(town.card, {"p5": town.clients["p5"]})
    found = before.adapt(one, samples_per_class=2).table
    assert run.people["macro_f1"].item() == pytest.approx(found["macro_f1"].item())
    predicted = run.predictions
    assert set(predicted["person"]) == {"p5"} and set(predicted["fold"]) == {"p5"}


@pytest.mark.slow
def test_a_comparison_of_folds_has_everybody_once(tmp_path: Path) -> None:
    write_federation(tmp_path / "people", people(samples=30))
    made = fedsub.compare(
        tmp_path / "people",
        "local,fedavg",
        2,
        folds="person",
        unseen_rounds=1,
        folder=tmp_path / "study",
        jobs=1,
        progress=False,
    )
    each = made.people
    names = sorted(people().clients)
    assert sorted(each[each["row"] == "fedavg"]["person"]) == names
    assert (each["fold"] == each["person"]).all()
    text = (tmp_path / "study" / "tables.md").read_text()
    assert "each person is left out once" in text and "seeds and folds" in text
    with (tmp_path / "study" / "runs.csv").open() as file:
        assert {row["fold"] for row in csv.DictReader(file)} == set(names)
    assert made.report.path.is_file()
    predicted = made.predictions
    assert (predicted["fold"] == predicted["person"]).all()
    assert set(predicted["row"]) == {"local", "fedavg"}
    assert (
        CliRunner().invoke(cli, ["predictions", str(made.folder), "--metric", "ece"]).exit_code == 0
    )
    with (made.folder / "predictions.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(predicted)
