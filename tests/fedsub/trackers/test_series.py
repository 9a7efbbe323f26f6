"""What trackers are told of a run: means, times, and nobody's name."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.report.reading import read_run
from fedsub.trackers import series
from fedsub.trackers.series import Tracked, tracked
from fedsub_server.rundb_seal import committed_metrics, sealed

from ..report.made_runs import PEOPLE, make_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two methods, one of them not finished."""
    scores = {"fedclar": lambda r, i: 0.1 * r + 0.1 * i, "local": lambda r, i: 0.5}
    return make_run(tmp_path / "run", scores, done={"local": 1})


def values(one: Tracked) -> dict[str, dict[int, float]]:
    found = {s.name: dict(zip(s.rounds, s.values, strict=True)) for s in one.series}
    assert len(found) == len(one.series)
    return found


def test_means_over_people_by_round(folder: Path) -> None:
    fedclar, local = tracked(folder)
    assert (fedclar.method, fedclar.finished) == ("fedclar", True)
    assert (local.method, local.finished) == ("local", False)
    found = values(fedclar)
    # Four people of 0.1 r + 0, 0.1, 0.2, 0.3; the first lacks the second class.
    assert found["people/macro_f1"] == pytest.approx({1: 0.25, 2: 0.35, 3: 0.45})
    assert found["people/macro_f1_p10"] == pytest.approx({1: 0.13, 2: 0.23, 3: 0.33})
    assert found["f1/class_0"] == pytest.approx({1: 0.25, 2: 0.35, 3: 0.45})
    assert found["f1/class_1"] == pytest.approx({1: 0.3, 2: 0.4, 3: 0.5})
    assert found["bytes/up_sent"] == {1: 2048, 2: 2048, 3: 2048}
    assert found.keys() == values(local).keys() == {
        *("people/macro_f1", "people/macro_f1_p10", "people/weighted_f1", "people/accuracy"),
        *("people/loss", "bytes/up_sent", "bytes/down_sent", "f1/class_0", "f1/class_1"),
    }  # fmt: skip
    assert values(local)["people/macro_f1"] == {1: 0.5}


def test_the_last_round_is_what_the_summary_says(folder: Path) -> None:
    for one, trace in zip(tracked(folder), read_run(folder).traces, strict=True):
        found, last = values(one), trace.summary.evaluated_round
        assert last is not None
        for name in ("macro_f1", "macro_f1_p10", "accuracy", "loss"):
            assert found[f"people/{name}"][last] == pytest.approx(getattr(trace.summary, name))


def test_settings_are_of_the_method_and_name_nobody(folder: Path) -> None:
    fedclar, local = tracked(folder)
    assert fedclar.settings["lr"] == 0.02 and fedclar.settings["method"] == "fedclar"
    assert {key.partition(".")[0] for key in fedclar.settings if "." in key} == {"fedclar"}
    assert fedclar.run != local.run
    assert "data: card" in fedclar.settings
    assert PEOPLE[0] not in str((fedclar, local))


def test_rounds_of_one_commit_share_its_time(folder: Path) -> None:
    database = folder / "fedclar" / "state.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as opened, sealed(opened):
        opened.execute("DELETE FROM rounds WHERE round = 1")
        opened.execute("UPDATE rounds SET seconds = 10 * round - 16")  # 4 s, 14 s
        now = [(crc, round) for round, _, crc in committed_metrics(opened)]
        opened.executemany("UPDATE rounds SET metrics_crc = ? WHERE round = ?", now)
    os.utime(database, (1000, 1000))
    (fedclar, _) = tracked(folder)
    assert fedclar.times == pytest.approx({0: 982, 1: 984, 2: 986, 3: 1000})


def test_a_method_that_has_not_ended_a_round(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"fedavg": lambda r, i: 0.5}, done={"fedavg": 0})
    (one,) = tracked(folder)
    assert list(one.series) == [] and list(one.times) == [0] and not one.finished


@pytest.mark.parametrize(
    ("classes", "names"),
    [(("walk", "sit (sofa)"), {"walk", "sit_sofa_"}), (("a/b", "a b"), {"a_b_0", "a_b_1"})],
)
def test_classes_have_names_that_viewers_take(
    folder: Path, monkeypatch: pytest.MonkeyPatch, classes: tuple[str, ...], names: set[str]
) -> None:
    frame = replace(read_run(folder), classes=classes)
    monkeypatch.setattr(series, "read_run", lambda folder: frame)
    found = {s.name.removeprefix("f1/") for s in tracked(folder)[0].series if "f1/" in s.name}
    assert found == names


def test_a_model_that_diverged_is_told_as_such(tmp_path: Path) -> None:
    def score(round: int, place: int) -> float:
        return float("nan") if (round, place) == (2, 1) else 0.5

    (one,) = tracked(make_run(tmp_path, {"fedavg": score}))
    for name in ("people/macro_f1", "people/macro_f1_p10"):
        assert np.isnan(list(values(one)[name].values())).tolist() == [False, True, False]
