"""Rounds that end early: by patience on validation parts, or by a function."""

import sys
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedsub.status.reading import run_status
from fedsub.studies.run import train_methods
from fedsub.testing.runs import people
from fedsub_core.config.run_config import dump_toml, read_config
from fedsub_core.config.settings import RoundSettings
from fedsub_core.errors import RunError
from fedsub_core.metric_names import VALIDATION, VALIDATION_ERROR
from fedsub_core.metrics import MetricRow
from fedsub_server.ending import Ending, RoundDone, ended_in_words, read_ended


def rows(round: int, *values: float, metric: str = VALIDATION) -> list[MetricRow]:
    return [MetricRow(round, f"p{i}", None, metric, one) for i, one in enumerate(values)]


def test_patience_looks_at_what_was_reached_so_many_rounds_ago(tmp_path: Path) -> None:
    settings = RoundSettings(rounds=20, patience=2)
    ending = Ending(settings, "ditto", tmp_path)
    reached = [0.2, 0.3, 0.3, 0.4, 0.4, 0.4005]
    said = [ending.after(i + 1, rows(i + 1, one, one)) for i, one in enumerate(reached)]
    assert said == [False] * 5 + [True], "0.4 after 4 rounds, less than 0.001 more after 6"
    assert ending.rounds == 6 and "went from 0.4 to 0.4005" in read_ended(tmp_path)["why"]
    later = Ending(settings, "ditto", tmp_path / "other", rows(1, 0.5) + rows(2, 0.5))
    (tmp_path / "other").mkdir()
    assert later.after(3, rows(3, 0.5)), "also by what an earlier process saw"


def test_somebody_whose_errors_diverged_ends_nothing_for_the_others(tmp_path: Path) -> None:
    ending = Ending(RoundSettings(rounds=20, patience=2), "ditto", tmp_path)
    for round in range(1, 7):
        each = rows(round, 10 / round, 8 / round, inf, metric=VALIDATION_ERROR)
        assert not ending.after(round, each)
    for round in (7, 8):
        said = ending.after(round, rows(round, 10 / 6, 8 / 6, inf, metric=VALIDATION_ERROR))
    assert said and "went from 1.5 to 1.5" in read_ended(tmp_path)["why"]


def test_people_are_held_against_themselves(tmp_path: Path) -> None:
    ending = Ending(RoundSettings(rounds=20, patience=1), "ditto", tmp_path)
    assert not ending.after(1, rows(1, 0.9, 0.2))
    assert not ending.after(2, rows(2, 0.9, 0.4)[1:]), "the one who was asked again has more"
    assert not ending.after(3, rows(3, 0.9)), "nobody was asked in both rounds"


def test_the_last_round_ends_nothing_early(tmp_path: Path) -> None:
    ending = Ending(RoundSettings(rounds=3, patience=1), "ditto", tmp_path, rows(2, 0.5))
    assert not ending.after(3, rows(3, 0.5)) and read_ended(tmp_path) == {}
    silent = Ending(RoundSettings(rounds=3), "ditto", tmp_path, rows(1, 0.5))
    assert not silent.after(2, rows(2, 0.5))
    every = Ending(RoundSettings(rounds=9, patience=1), "ditto", tmp_path, rows(2, 0.5))
    assert not every.after(3, []), "nothing was evaluated in it"


@pytest.fixture
def given() -> Any:
    module = ModuleType("ends_of_a_test")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_a_function_gets_the_rounds_numbers_and_may_end_it(given: Any, tmp_path: Path) -> None:
    seen: list[RoundDone] = []
    given.f = lambda done: seen.append(done) or done.round == 2  # type: ignore[func-returns-value]
    own = tmp_path / "ditto"
    own.mkdir()
    ending = Ending(RoundSettings(rounds=5, on_round="ends_of_a_test:f"), "ditto", own)
    of_class = MetricRow(1, "p0", 3, "f1", 0.9)
    assert not ending.after(1, [*rows(1, 0.2, 0.4), of_class])
    assert seen[0].means == {VALIDATION: pytest.approx(0.3)}
    assert (seen[0].method, seen[0].rounds, list(seen[0].people)) == ("ditto", 5, ["p0", "p1"])
    assert ending.after(2, [])
    assert ended_in_words(tmp_path) == (
        "Ended early: ditto after round 2 of 5 (ends_of_a_test:f ended it)."
    )


def test_a_function_that_fails_is_named_with_method_and_round(given: Any, tmp_path: Path) -> None:
    given.f = lambda done: done.absent
    ending = Ending(RoundSettings(on_round="ends_of_a_test:f"), "ditto", tmp_path)
    with pytest.raises(RunError, match=r"ditto, round 4: got AttributeError"):
        ending.after(4, [])
    assert read_ended(tmp_path) == {}


def test_a_run_that_ended_early_is_not_gone_on_with(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"method": "local", "beside": "", "rounds": 30, "evaluate-every": 1}
    keys |= {"best-by": "validation", "patience": 2, "lr": 0.2, "device": "cpu"}
    config, folks = read_config(None, keys), people(((0, 1, 2) * 4,) * 2)
    (tmp_path / "run.toml").write_text(dump_toml(config))
    first = train_methods(config, folks, tmp_path, lambda name, round: None)
    ended = read_ended(tmp_path / "local")["round"]
    assert 3 <= ended < 30 and f"Ended early: local after round {ended}" in str(first["done"])
    told, reached = list[int](), first["methods"]["local"]["macro_f1"]
    again = train_methods(config, folks, tmp_path, lambda name, round: told.append(round))
    assert told == [ended] and again["methods"]["local"]["macro_f1"] == reached
    assert (tmp_path / "local" / "models").is_dir()
    assert run_status(tmp_path, "simulation").state == "finished"
