"""Drops and recoveries by hand."""

from pathlib import Path

import pytest

from fedsub.report.reading import read_run
from fedsub.report.recovery import recoveries

from .made_runs import make_run

#: Data come in rounds 3 and 6.
MEANS = {1: 0.5, 2: 0.6, 3: 0.4, 4: 0.3, 5: 0.65, 6: 0.5, 7: 0.6}


def test_drop_and_rounds_until_it_is_back(tmp_path: Path) -> None:
    made = make_run(
        tmp_path,
        {"fedavg": lambda round, place: MEANS[round]},
        rounds=7,
        examples=lambda round, place: 10 + 5 * (round >= 3) + 5 * (round >= 6 and place == 0),
    )
    first, second = recoveries(read_run(made).traces[0])
    assert (first.round, first.people, first.rounds) == (3, 4, 2)
    assert (first.before, first.drop) == (pytest.approx(0.6), pytest.approx(0.3))
    assert (second.round, second.people, second.rounds) == (6, 1, None)
    assert (second.before, second.drop) == (pytest.approx(0.65), pytest.approx(0.15))


def test_none_where_data_stay(tmp_path: Path) -> None:
    made = make_run(tmp_path, {"fedavg": lambda round, place: 0.5}, done={"fedavg": 1})
    assert recoveries(read_run(made).traces[0]) == []


def test_f1_of_the_classes_that_came_and_ten_rounds_later(tmp_path: Path) -> None:
    """In round 3 to two people, one of whom gets samples of classes that it had; in 15 to one."""
    made = make_run(
        tmp_path,
        {"fedavg": lambda round, place: 0.5},
        rounds=16,
        examples=lambda round, place: 10 + (round >= 3 and place > 1) + (round >= 15 and place < 1),
        new=lambda round, place: {2: round / 100 if round >= 3 else None, 0: 0.9}.get(place),
    )
    first, second = recoveries(read_run(made).traces[0])
    assert (first.round, first.people) == (3, 2)
    assert (first.new, first.later) == (pytest.approx(0.03), pytest.approx(0.13))
    assert (second.new, second.later) == (pytest.approx(0.9), None)
