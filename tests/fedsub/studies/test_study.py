"""Studies: what a file says, what is tuned on what, which runs are made anew, killed studies."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.studies.engine import Underway, federation_of
from fedsub.studies.kept_study import shortened
from fedsub.studies.local_engine import local_engine
from fedsub.studies.runner import (
    RunsFailedError,
    Stage,
    choose,
    cost,
    run_study,
    run_tasks,
    unfinished_tuning,
)
from fedsub.studies.study import Entry, Study, Task, shown, task_of, tuning_tasks
from fedsub.studies.study_file import read_study
from fedsub.studies.study_page import write_study_page
from fedsub.studies.study_results import finished, tables
from fedsub.studies.study_tables import write_tables
from fedsub.studies.tuning import tuning_run
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.new_cohort import held_and_learner
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation, read_federation, write_federation
from fedsub_core.data.held_out import unseen_clients
from fedsub_core.errors import ConfigError, DataError, RunError

from .in_this_process import in_this_process
from .interrupting import started

Ended = Generator[tuple[Task, str | None], None, None]
STUDIES = Path(__file__).resolve().parents[3] / "studies"
STUDY = """
title = "Small"
about = "Two seeds, two shares."
seeds = [0, 3]
[run]
data = "people"
rounds = 2
lr = 0.05
[vary]
train-share = [1.0, 0.5]
[methods]
local = {}
fedavg = {}
"ditto 0.5" = { method = "ditto", lam = 0.5 }
ditto = {}
[tune]
lr = [0.01, 0.05]
"ditto.lam" = [0.1, 1.0]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_federation(tmp_path / "people", people(samples=20))
    (tmp_path / "small.toml").write_text(STUDY)
    return tmp_path


def nothing(stage: Stage) -> None:
    """Tell nobody how far it is."""


def test_all_combinations_are_runs_and_fixed_hyperparameters_are_not_tuned(place: Path) -> None:
    study = read_study(place / "small.toml")
    assert [dict(cell) for cell in study.cells] == [{"train-share": 1.0}, {"train-share": 0.5}]
    tried = {entry.label: len(study.candidates(entry)) for entry in study.entries}
    assert tried == {"local": 2, "fedavg": 2, "ditto 0.5": 2, "ditto": 4}
    assert len(list(tuning_tasks(study))) == 2 * (2 + 2 + 2 + 4)
    assert all(task.config.seed == 0 and task.tuning for task in tuning_tasks(study))
    (half,) = (e for e in study.entries if e.label == "ditto 0.5")
    config = task_of(study, half, study.cells[1], 3, {"lr": 0.01}).config
    assert (config.lr, config.seed, config.train_share) == (0.01, 3, 0.5)
    assert config.hyper["ditto"].lam == 0.5 and config.data == str(place / "people")


def test_a_name_knows_what_decides_the_outcome_and_nothing_else(place: Path) -> None:
    study = read_study(place / "small.toml")

    def name(changed: Study, label: str) -> str:
        (entry,) = (e for e in changed.entries if e.label == label)
        return task_of(changed, entry, changed.cells[0], 0, {"lr": 0.01}).name

    other = place / "other.toml"
    other.write_text(STUDY.replace("lam = 0.5", "lam = 0.7").replace("Small", "Other"))
    changed = read_study(other)
    assert name(study, "local") == name(changed, "local")
    assert name(study, "ditto 0.5") != name(changed, "ditto 0.5")
    longer = shortened(study, None, 5)
    assert name(study, "local") != name(longer, "local")
    threads = replace(study, run={**study.run, "threads": 2})
    assert name(study, "local") == name(threads, "local")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title", "titel", "unknown key 'titel'. Did you mean 'title'"),
        ("seeds = [0, 3]", "seeds = [0, 0]", "seeds: got"),
        ("seeds = [0, 3]", "budget = 'time'", "budget: got 'time', expected rounds or compute"),
        ("[1.0, 0.5]", "1.0", "vary: train-share: got 1.0, expected a list"),
        ("[1.0, 0.5]", "[1.0, 2.0]", "train-share: got 2.0"),
        ("lam = 0.5", "lamb = 0.5", "ditto 0.5: .*unknown key 'ditto.lamb'"),
        ("[0.1, 1.0]", "[0.1, -1.0]", "lam: got -1.0"),
        ("fedavg = {}", "fedavgg = {}", "unknown method 'fedavgg'"),
        ("fedavg = {}", '"a/b" = {}', "methods: got 'a/b'"),
        ("rounds = 2", "rounds = 2\nmethod = 'x y'", "run: method: got 'x y', expected it among"),
        ("train-share = [1.0, 0.5]", "lr = [0.1]", r"vary: lr: got it in \[tune\], too"),
        (
            "train-share = [1.0, 0.5]",
            "ditto.lam = [0.1]",
            r"ditto.lam: .*\[methods\] of 'ditto",
        ),
        ("local = {}", "alone = { method = 'local' }", "got 'alone' for the method local"),
        ("local = {}", "local = { method = 'fedprox' }", "got 'local' for the method fedprox"),
        ("seeds = [0, 3]", "show = ['tested']", "got the measure 'tested', expected"),
        ("seeds = [0, 3]", "seeds = 3", "seeds: got 3, expected whole numbers"),
        ("seeds = [0, 3]", "show = 3", "show: got 3, expected a list"),
        ("seeds = [0, 3]", "paper = [3]", r"paper: got \[3\], expected tables"),
        ("rounds = 2", "rounds = [2, 3]", r"run: rounds: got \[2, 3\], .* under \[\[vary\]\]"),
        ("lam = 0.5", "lam = [0.5, 1.0]", r"methods: ditto 0.5: lam: got .* under \[tune\]"),
        ("[tune]", "[paper]", r"paper: got .*, expected tables, each \[\[paper\]\]"),
        ('"ditto.lam" = [0.1, 1.0]', '"dito.lam" = [0.1]', "tune: dito.lam: no row"),
        ('"ditto.lam" = [0.1, 1.0]', '"fedprox.mu" = [0.1]', "tune: fedprox.mu: no row"),
        ('"ditto.lam" = [0.1, 1.0]', "test-share = [0.1]", "tune: test-share: got .* in .run. or"),
        ('"ditto.lam" = [0.1, 1.0]', "seed = [1, 2]", "tune: seed: got"),
        ("train-share = [1.0, 0.5]", "threads = [1, 2]", "vary: threads: expected it in .run."),
        ('"ditto.lam" = [0.1, 1.0]', "rounds = [1, 2]", "tune: rounds: got .* equal in rounds"),
        (
            "[vary]\ntrain-share = [1.0, 0.5]",
            "[[vary]]\ntrain-share = [1.0, 0.5]\n[[vary]]\ntrain-share = 0.5",
            "vary: got train-share 0.5 twice",
        ),
    ],
)
def test_what_is_no_study_is_refused(place: Path, old: str, new: str, said: str) -> None:
    file = place / "small.toml"
    file.write_text(STUDY.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        read_study(file)


def test_federations_of_one_name_are_refused(place: Path) -> None:
    """Their runs would be called alike, and one would stand in both tables."""
    write_federation(place / "other" / "people", people(samples=20, seed=7))
    file = place / "small.toml"
    two = 'data = ["people", "other/people"]'
    file.write_text(STUDY.replace('data = "people"\n', "").replace("train-share = [1.0, 0.5]", two))
    with refused(ConfigError, "data", got=["people", "other/people"]):
        read_study(file)


def test_values_are_chosen_on_the_training_part_alone() -> None:
    """No tested sample of the run is in the federation that tuning trains and tests on."""
    whole = people(samples=30)
    for share in (1.0, 0.3):
        config = RunConfig(method="local", beside="", train_share=share, split="stratified")
        part, again = tuning_run(whole, replace(config, rounds=7))
        for name, data in part.clients.items():
            split = split_client(whole.clients[name], whole.card, config.split_settings)
            assert np.array_equal(data.x, split.train_x) and np.array_equal(data.y, split.train_y)
        assert (again.train_share, again.split, again.evaluate_every) == (1.0, "stratified", 7)
        assert again.seed == config.seed


def test_values_are_chosen_on_the_validation_part_that_a_file_names() -> None:
    """Who names none has one drawn of its training samples; nobody is tested on tested ones."""
    whole = people(samples=30)
    numbers = {name: np.arange(len(data.y)) % 5 for name, data in whole.clients.items()}
    # Three of five are trained on, one is tested, and of all but one person one validates.
    given = {
        n: np.where(k < 3, 0, np.where(k == 3, 1, 2 if n != "p2" else 3))
        for n, k in numbers.items()
    }
    clients = {n: replace(c, parts=given[n]) for n, c in whole.clients.items()}
    whole, config = Federation(whole.card, clients), RunConfig(split="given")
    part, again = tuning_run(whole, config)
    assert again.split == "given" and part.clients.keys() == clients.keys()
    for name, data in part.clients.items():
        cut = split_client(data, whole.card, again.split_settings)
        own, tested = clients[name], given[name] == 1
        assert not (data.x[:, None] == own.x[tested]).all(2).any(), "a tested sample"
        if name != "p2":
            assert np.array_equal(cut.test_x, own.x[given[name] == 2])
            assert np.array_equal(cut.train_x, own.x[given[name] == 0])
        else:
            assert 0 < len(cut.test) < len(cut.train) == (given[name] == 0).sum() - len(cut.test)
    none = {n: replace(c, parts=np.where(given[n] == 2, 3, given[n])) for n, c in clients.items()}
    assert tuning_run(Federation(whole.card, none), config)[1].split == "auto"


def test_where_the_best_round_is_taken_values_are_chosen_for_that() -> None:
    whole, last = people(samples=30), RunConfig(method="local", beside="")
    config = replace(last, best_by="validation", evaluate_every=2)
    part, again = tuning_run(whole, config)
    assert (again.best_by, again.evaluate_every) == ("validation", 2)
    for name, data in tuning_run(whole, last)[0].clients.items():
        assert np.array_equal(part.clients[name].x, data.x)


def test_values_are_chosen_on_windows_that_none_of_those_trained_overlap() -> None:
    """However few are left; where so few that they cannot be cut in time, by class."""
    long = people(samples=200)
    whole = Federation(replace(long.card, overlap=0.75, time_ordered=True), long.clients)
    for share, split in ((1.0, "blocked"), (0.2, "blocked"), (0.02, "stratified")):
        config = RunConfig(method="local", beside="", train_share=share, split="blocked")
        part, again = tuning_run(whole, config)
        assert again.split == split
        for name, data in part.clients.items():
            cut = split_client(data, whole.card, again.split_settings)
            places = [
                {int(np.flatnonzero((whole.clients[name].x == row).all(1))[0]) for row in rows}
                for rows in (cut.train_x, cut.test_x)
            ]
            apart = min(abs(a - b) for a in places[0] for b in places[1])
            assert split == "stratified" or apart >= 4


def test_where_people_lack_labels_values_are_chosen_for_such_people_too() -> None:
    """Not the run's: of classes that are left in its training part, others are tested alone."""
    whole = people(((0, 1, 2),) * 12, samples=30)
    config = RunConfig(
        method="local", beside="", split="stratified", unlabelled=0.5, unlabelled_classes=0.7
    )
    part, again = tuning_run(whole, config)
    lacking = {}
    for data, settings in ((whole, config.split_settings), (part, again.split_settings)):
        split = {n: split_client(c, whole.card, settings) for n, c in data.clients.items()}
        lacking[data is part] = {
            n: set(s.test_y.tolist()) - set(s.train_y.tolist()) for n, s in split.items()
        }
    assert any(lacking[True].values()) and lacking[True] != lacking[False]
    assert not any(lacking[True][n] & lacking[False][n] for n in part.clients)


def test_people_who_are_held_out_choose_nothing() -> None:
    federation = people(samples=40)
    config = RunConfig(split="unseen", unseen_share=0.4, seed=3)
    out = unseen_clients(federation.clients, 0.4, 3)
    kept = tuning_run(federation, config)[0].clients
    assert out and kept.keys() == federation.clients.keys() - set(out)


def test_people_who_are_held_out_by_capacity_choose_nothing() -> None:
    federation = people(samples=40)
    config = RunConfig(split="unseen", unseen_by="smallest", capacities="p2=1/4,p3=1/4")
    kept = tuning_run(federation, config)[0].clients
    assert kept.keys() == federation.clients.keys() - {"p2", "p3"}


def test_who_has_too_few_samples_to_be_divided_again_has_no_say() -> None:
    whole = people(samples=30)
    few = replace(whole.clients["p2"], x=whole.clients["p2"].x[:2], y=whole.clients["p2"].y[:2])
    config = RunConfig(method="local", beside="", split="stratified")
    part, _ = tuning_run(Federation(whole.card, whole.clients | {"p2": few}), config)
    assert part.clients.keys() == whole.clients.keys() - {"p2"}
    with refused(DataError, "1 clients", "none"):
        tuning_run(Federation(whole.card, {"p2": few}), config)


def test_equal_compute_gives_costly_methods_fewer_rounds(place: Path) -> None:
    file = place / "small.toml"
    file.write_text(
        STUDY.replace("seeds =", "budget = 'compute'\nseeds =").replace("rounds = 2", "rounds = 40")
    )
    study = read_study(file)
    rounds = {}
    for entry in study.entries:
        config = task_of(study, entry, study.cells[0], 0, study.candidates(entry)[0]).config
        rounds[entry.label] = config.rounds
    assert rounds == {"local": 40, "fedavg": 40, "ditto 0.5": 20, "ditto": 20}
    counted = replace(study, run={**study.run, "steps": 5})
    with refused(ConfigError, "budget = compute", got="steps = 5", expected=0):
        task_of(counted, study.entries[0], study.cells[0], 0, {})
    file.write_text(file.read_text() + "epochs = [1, 5]\n")
    with pytest.raises(ConfigError, match=r"tune: epochs: got .* equal in compute"):
        read_study(file)


def test_a_study_is_made_once_and_only_what_changed_is_made_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsub.report.comparing.FEWEST_PEOPLE", 2)  # there are fewer than five
    study = shortened(read_study(place / "small.toml"), "0", 1)
    study = replace(study, cells=((),), tune={"lr": [0.01, 0.05]}, entries=study.entries[::3])
    out = place / "out"
    chosen = run_study(study, out, in_this_process, nothing)
    runs = finished(study, out, chosen)
    text = write_tables(study, out, runs)
    files = {p.parent.name: p.stat().st_mtime_ns for p in out.glob("runs/*/summary.json")}
    assert len(files) == 2 * 2 + 2
    assert (
        run_study(study, out, in_this_process, nothing)
        == chosen
        == json.loads((out / "chosen.json").read_text())
    )
    assert write_tables(study, out, runs) == text == (out / "tables.md").read_text()
    for label in ("local", "ditto"):
        assert f"\n| {label} |" in text
    ((_, rows),) = tables(study, runs)
    assert {row.twin for row in rows} == {"own heads"} and all(row.gain is not None for row in rows)
    for row in rows:
        assert row.interval is not None
        assert row.interval[0] <= row.score <= row.interval[1]
    by = {run.task.entry.label: run.people for run in runs}
    (alone,) = (run.own_heads for run in runs if run.task.entry.method == "local")
    for row in rows:
        if row.gain is not None and row.gain_interval is not None:
            own = by[row.entry.label]
            gains = [own[person] - alone[person] for person in alone]
            assert row.gain == pytest.approx(np.mean(gains))
            assert row.worse == np.mean(np.array(gains) < 0)
            assert row.gain_interval[0] <= row.gain <= row.gain_interval[1]
    more = replace(study, seeds=(0, 1))
    run_study(more, out, in_this_process, nothing)
    after = {p.parent.name: p.stat().st_mtime_ns for p in out.glob("runs/*/summary.json")}
    assert files.items() <= after.items() and len(after) == len(files) + 2


def test_runs_of_other_data_do_not_come_into_one_table(place: Path) -> None:
    study = shortened(read_study(place / "small.toml"), "0", 1)
    study = replace(study, cells=((),), tune={}, entries=study.entries[:1])
    out, data = place / "out", place / "people"
    out.mkdir()
    run_study(study, out, in_this_process, nothing)
    before = read_federation(data)
    turned = {n: replace(c, y=np.roll(c.y, 1)) for n, c in before.clients.items()}
    shutil.rmtree(data)
    write_federation(data, Federation(before.card, turned))
    federation_of.cache_clear()
    run_study(study, out, in_this_process, nothing)  # there is nothing to do
    with refused(RunError, "people", "data", "--out"):
        run_study(replace(study, seeds=(0, 1)), out, in_this_process, nothing)
    assert len(list(out.glob("runs/*"))) == 1


def test_a_study_whose_data_moved_knows_what_it_chose(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = STUDY.replace('data = "people"\n', "").replace("train-share", 'data = ["people"]\n#')
    (place / "small.toml").write_text(text)
    study = shortened(read_study(place / "small.toml"), "0", 1)
    study = replace(study, entries=study.entries[:2])
    chosen = run_study(study, place / "out", in_this_process, nothing)
    moved = tmp_path_factory.mktemp("elsewhere") / "place"
    shutil.move(place, moved)
    again = shortened(read_study(moved / "small.toml"), "0", 1)
    again = replace(again, entries=again.entries[:2])
    assert len(finished(again, moved / "out", chosen)) == 2


def test_a_run_that_fails_is_named_and_the_others_are_kept(place: Path) -> None:
    study = shortened(read_study(place / "small.toml"), "0", 1)
    study = replace(study, cells=((),), tune={})
    good = [task_of(study, entry, (), 0, {}) for entry in study.entries[:2]]
    bad = task_of(study, Entry("deep", "fedper", {"head-layers": 9}), (), 0, {})
    failed = run_tasks([*good, bad], place / "out", local_engine(1), "runs", nothing)
    assert list(failed) == [bad.name] and "head: got 9 layers" in failed[bad.name]
    assert len(list((place / "out").glob("runs/*/summary.json"))) == 2


def test_a_stage_is_done_when_its_runs_have_ended(place: Path) -> None:
    study = replace(shortened(read_study(place / "small.toml"), "0", 1), cells=((),), tune={})
    wanted = [task_of(study, entry, (), 0, {}) for entry in study.entries[:2]]
    told: list[Stage] = []

    def engine(todo: Sequence[Task], folder: Path, underway: Underway) -> Ended:
        for task in todo:
            underway(task, task.config.rounds)
            yield task, None

    run_tasks(wanted, place / "out", engine, "runs", told.append)
    assert [stage.ended for stage in told] == [0, 0, 1, 1, 2]
    assert [stage.done >= stage.total for stage in told] == [False] * 4 + [True]


def test_data_that_cannot_be_read_fail_their_own_runs(place: Path) -> None:
    two = 'data = ["people", "gone"]'
    text = STUDY.replace('data = "people"\n', "").replace("train-share = [1.0, 0.5]", two)
    (place / "small.toml").write_text(text)
    study = replace(shortened(read_study(place / "small.toml"), "0", 1), tune={})
    study = replace(study, entries=study.entries[:1])
    (place / "out").mkdir()
    with pytest.raises(RunsFailedError, match=r"1 run failed(.|\n)*gone") as failed:
        run_study(study, place / "out", in_this_process, nothing)
    assert len(list((place / "out").glob("runs/*/summary.json"))) == 1
    rest = failed.value.rest
    assert rest.about.endswith("Missing, as runs failed: local (data gone).")
    runs = finished(rest, place / "out", failed.value.chosen)
    assert [cell for cell, _ in tables(rest, runs)] == [study.cells[0]]


def test_data_that_no_run_could_be_trained_on_may_be_corrected(place: Path) -> None:
    study = replace(shortened(read_study(place / "small.toml"), "0", 1), tune={}, cells=((),))
    study, data = replace(study, entries=study.entries[:1]), place / "people"
    good = read_federation(data)
    few = {n: replace(c, x=c.x[:1], y=c.y[:1]) for n, c in good.clients.items()}
    (place / "out").mkdir()
    for people_there in (few, good.clients):
        shutil.rmtree(data)
        write_federation(data, Federation(good.card, people_there))
        federation_of.cache_clear()
        if people_there is few:
            with pytest.raises(RunsFailedError, match="1 run failed"):
                run_study(study, place / "out", in_this_process, nothing)
        else:
            run_study(study, place / "out", in_this_process, nothing)
    assert len(list((place / "out").glob("runs/*/summary.json"))) == 1


def test_long_runs_come_first(place: Path) -> None:
    study = read_study(place / "small.toml")

    def task(label: str, rounds: int) -> Task:
        (entry,) = (e for e in study.entries if e.label == label)
        return task_of(shortened(study, None, rounds), entry, study.cells[0], 0, {})

    assert cost(task("ditto", 2)) > cost(task("fedavg", 2)) == cost(task("local", 2))
    assert cost(task("local", 9)) > cost(task("ditto", 2))


def test_of_a_diverged_run_nothing_is_chosen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = replace(shortened(read_study(place / "small.toml"), "0", 1), cells=((),))
    # Logits that are no numbers are taken for the first class: F1 is a number, the loss is none.
    reached = {0.01: (0.3, float("nan")), 0.05: (0.2, 1.0)}

    class Reached:
        def __init__(self, folder: Path, task: Task) -> None:
            self.macro_f1, self.loss = reached[task.config.lr]

    monkeypatch.setattr("fedsub.studies.runner.summary", Reached)
    assert {values["lr"] for values in choose(study, place).values()} == {0.05}


def test_values_whose_run_failed_are_not_chosen_and_the_row_stays(place: Path) -> None:
    """A rate with which models leave all bounds ends its run: no upload can be used."""
    text = STUDY.replace("lr = [0.01, 0.05]", "lr = [0.01, 1e9]")
    assert text != STUDY
    (place / "small.toml").write_text(text)
    study = replace(shortened(read_study(place / "small.toml"), "0", 2), cells=((),))
    study = replace(study, entries=tuple(e for e in study.entries if e.label == "fedavg"))
    (place / "out").mkdir()
    with pytest.raises(RunsFailedError, match=r"1 run failed(.|\n)*tuning-fedavg") as failed:
        run_study(study, place / "out", in_this_process, nothing)
    assert [values["lr"] for values in failed.value.chosen.values()] == [0.01]
    rest = failed.value.rest
    assert "Missing" not in rest.about and "failed: tuning-fedavg" in rest.about
    assert len(finished(rest, place / "out", failed.value.chosen)) == 1
    gone = unfinished_tuning(study, place / "out")
    assert choose(study, place / "out", gone) == failed.value.chosen


def test_several_seeds_choose_together(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their mean; what diverges with any of them is not chosen."""
    (place / "small.toml").write_text(STUDY.replace("seeds = ", "tune-seeds = 2\nseeds = "))
    study = replace(read_study(place / "small.toml"), cells=((),))
    assert {task.config.seed for task in tuning_tasks(study)} == set(study.seeds[:2])
    assert {task.config.seed for task in tuning_tasks(shortened(study, "5", None))} == {5}
    f1 = {(0.01, 0): 0.9, (0.01, 3): 0.2, (0.05, 0): 0.6, (0.05, 3): 0.6}
    loss = dict.fromkeys(f1, 1.0)

    class Reached:
        def __init__(self, folder: Path, task: Task) -> None:
            key = task.config.lr, task.config.seed
            self.macro_f1, self.loss = f1[key], loss[key]

    def rates() -> set[float]:
        return {values["lr"] for values in choose(study, place).values()}

    monkeypatch.setattr("fedsub.studies.runner.summary", Reached)
    assert rates() == {0.05}
    f1[0.01, 3] = 0.8
    assert rates() == {0.01}
    loss[0.01, 3] = float("nan")
    assert rates() == {0.05}


@pytest.mark.parametrize("number", ["0", "3", "true", '"2"'])
def test_how_many_seeds_choose_is_checked(number: str, place: Path) -> None:
    file = place / "small.toml"
    file.write_text(STUDY.replace("seeds = ", f"tune-seeds = {number}\nseeds = "))
    with refused(ConfigError, "tune-seeds", expected="2 seeds"):
        read_study(file)


@pytest.mark.slow
def test_a_study_that_is_killed_ends_in_the_same_tables(tmp_path: Path) -> None:
    write_federation(tmp_path / "people", people(samples=20))
    file = tmp_path / "small.toml"
    file.write_text(STUDY.replace("rounds = 2", "rounds = 12").replace("[1.0, 0.5]", "[1.0]"))
    fedsub = str(Path(sys.executable).with_name("fedsub"))
    command = [fedsub, "compare", str(file), "--seeds", "0", "--jobs", "2"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, "--out", str(whole)], env=env, check=True, capture_output=True)
    stream, kills = random.Random(0), 0
    while kills < 3:
        before = len(list(killed.glob("runs/*/summary.json")))
        with subprocess.Popen(
            [*command, "--out", str(killed)],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as study:
            until = time.monotonic() + 60
            while (
                len(list(killed.glob("runs/*/*/state.db"))) <= before
                and study.poll() is None
                and time.monotonic() < until
            ):
                time.sleep(0.05)
            time.sleep(stream.random())
            os.killpg(study.pid, signal.SIGKILL)
        kills += 1
    subprocess.run([*command, "--out", str(killed)], env=env, check=True, capture_output=True)
    for name in ("tables.md", "runs.csv", "people.csv", "chosen.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.release),
        signal.SIGTERM,
        pytest.param(signal.SIGKILL, marks=pytest.mark.release),
    ],
)
def test_an_interrupted_study_ends_at_once_and_its_runs_with_it(
    how: signal.Signals, tmp_path: Path
) -> None:
    """A run that went on would meet the next start of the study in its folder."""
    write_federation(tmp_path / "people", people(samples=20))
    file, out = tmp_path / "small.toml", tmp_path / "out"
    file.write_text(STUDY.replace("rounds = 2", "rounds = 20000").partition("[tune]")[0])
    fedsub = str(Path(sys.executable).with_name("fedsub"))
    command = [fedsub, "compare", str(file), "--seeds", "0", "--jobs", "2", "--out", str(out)]
    with started(command) as study:
        until = time.monotonic() + 180
        while len(list(out.glob("runs/*/*/state.db"))) < 2:
            assert study.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        study.send_signal(how)
        _, said = study.communicate(timeout=60)
    if how == signal.SIGKILL:
        assert study.returncode == -how
    else:
        assert study.returncode == 128 + how and said.endswith(
            f" compare {shlex.join(command[2:])}\n"
        )
    while True:  # its processes are a group
        try:
            os.killpg(study.pid, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < until + 60
        time.sleep(0.05)
    assert not list(out.glob("runs/*/seconds"))


def test_federations_lie_in_the_folder_that_is_named(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    federation = people(samples=20)
    write_federation(elsewhere / "people", Federation(federation.card, federation.clients))
    for data, expected in ((elsewhere, elsewhere), (None, place)):
        assert read_study(place / "small.toml", data).run["data"] == str(expected / "people")


@pytest.mark.parametrize("file", sorted(STUDIES.glob("*.toml")), ids=lambda file: file.stem)
def test_the_studies_that_come_along_can_be_read(file: Path) -> None:
    study = read_study(file)
    assert study.about and "local" in {entry.method for entry in study.entries}
    assert f"`{file.name}`" in (file.parent / "README.md").read_text()
    # A device takes up each row's hyperparameters, whatever its rate: of windows and a chain here.
    for cell, entry in study.rows():
        for tuned in study.candidates(entry):
            config = task_of(study, entry, cell, 0, tuned).config
            config = replace(config, model="cnn1d", encoder="auto", norm="averaged")
            held_and_learner(config.device_settings(entry.method), people().card, (3, 64))


#: Run in CI, too; all others are only read there.
OFTEN = {"quick", "secure-sums", "weak-devices", "graphs", "subflot-ablation", "framp-late"}


def study_files(folder: Path = STUDIES) -> list[object]:
    """One case for each study of a folder."""
    return [
        pytest.param(file, marks=[pytest.mark.release] * (file.stem not in OFTEN), id=file.stem)
        for file in sorted(folder.glob("*.toml"))
    ]


def shows_each_size(run: Mapping[str, object]) -> bool:
    """Whether devices of several capacities are tested."""
    return "," in str(run.get("capacities", "")) and run.get("unseen-by") != "smallest"


@pytest.mark.slow
@pytest.mark.parametrize("file", study_files())
def test_the_studies_that_come_along_run(file: Path, tmp_path: Path) -> None:
    """With a few samples in the place of their data, untuned: the last of their tables that mixes
    capacities, where a study shows each size, else their last."""
    tiny, stream = people(((0, 1, 2),) * 10, samples=12), np.random.default_rng(0)
    windows = {
        name: replace(data, x=stream.normal(size=(len(data.y), 3, 64)).astype(np.float32))
        for name, data in tiny.clients.items()
    }
    card = replace(tiny.card, features=("x", "y", "z"), sampling_rate_hz=20.0)
    pixels = {
        name: replace(data, x=stream.integers(0, 256, (len(data.y), 3, 32, 32), np.uint8))
        for name, data in tiny.clients.items()
    }
    texts = {
        name: replace(data, x=stream.integers(1, 50, (len(data.y), 8), np.int32))
        for name, data in tiny.clients.items()
    }
    # Networks that take minutes give way to a small one.
    text = file.read_text().replace('"resnet18", "cnn2d"', '"cnn2d"')
    text = text.replace('"resnet18"', '"cnn2d"').replace('"vgg11"', '"cnn2d"')
    # Ten people are there, of a hundred.
    text = re.sub(r"(clients-per-round = )([12])0\b", r"\1\2", text)
    (file := tmp_path / file.name).write_text(text)
    named = re.findall(r'"([a-z0-9.-]+)"', " ".join(re.findall(r"\ndata = (.*)", text)))
    for name in {*named} - {"watch"}:
        raw = name == "hard-clusters" or name.endswith("-windows") or "cnn1d" in text
        chosen = Federation(card, windows) if raw or "har-cnn" in text else tiny
        if name.startswith(("cifar", "digits", "pacs")):
            chosen = Federation(replace(card, sampling_rate_hz=None, sample="image"), pixels)
        if name.startswith("cora"):
            row = np.stack([np.arange(5), np.arange(1, 6)])
            joined = {who: replace(data, edges=row) for who, data in tiny.clients.items()}
            chosen = Federation(replace(tiny.card, sample="node"), joined)
        if name.startswith("ag-news"):
            words = replace(tiny.card, features=("word",), sample="tokens", vocabulary=50)
            chosen = Federation(replace(words, padding=0), texts)
        write_federation(tmp_path / name, chosen)
    two = "-before" in text or "unseen-rounds" in text
    once = ["epochs=1"] * ("\nepochs = " in text)
    rounds = 12 if "cluster-round" in text else 2 if two else 1
    study = shortened(read_study(file, tmp_path), "0", rounds, settings=once)
    if "-before" in text:
        study = replace(study, run={**study.run, "evaluate-every": 1})
    mixed = tuple(cell for cell in study.cells if shows_each_size({**study.run, **dict(cell)}))
    study = replace(study, cells=(mixed or study.cells)[-1:], tune={})
    (out := tmp_path / "out").mkdir()
    runs = finished(study, out, run_study(study, out, in_this_process, nothing))
    assert len(runs) == len(study.cells) * len(study.entries)
    write_tables(study, out, runs)
    assert write_study_page(study, out, runs).stat().st_size > 50_000
    for name in study.show:
        assert any(run.measures[name] is not None for run in runs), name


@pytest.mark.parametrize(
    ("value", "said"), [(True, "true"), (False, "false"), ("1/4", "1/4"), ("/a/people", "people")]
)
def test_a_value_is_shown_as_a_study_has_it(value: object, said: str) -> None:
    assert shown(value) == said
