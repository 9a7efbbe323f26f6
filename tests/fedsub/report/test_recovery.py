"""Drops and recoveries by hand."""

from __future__ import annotations

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
