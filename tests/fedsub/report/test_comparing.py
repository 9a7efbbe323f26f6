"""Intervals, verdicts and gains in numbers."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedsub.report.comparing import band, differences, gains, interval, pairs
from fedsub.report.comparison_rows import beats_twin
from fedsub.report.frame import Frame, Grid
from fedsub.report.reading import read_run
from fedsub.report.report import write_report
from fedsub_server.summaries import summarise
from fedsub_server.tables import tables_of

from .made_runs import PEOPLE, make_run, weak


def test_a_band_is_the_summarys_interval() -> None:
    values = {"a": 0.2, "b": 0.5, "c": 0.9, "d": 0.4, "e": 0.7}
    four = {(2, name): value for name, value in values.items() if name != "e"}
    low, high = band(Grid.of({(1, name): value for name, value in values.items()} | four))
    expected = summarise(list(values.values()))
    assert expected.ci95 is not None
    assert low[0] == pytest.approx(expected.mean - expected.ci95)
    assert high[0] == pytest.approx(expected.mean + expected.ci95)
    assert np.isnan([low[1], high[1]]).all()  # four people have no interval
    assert summarise([0.2, 0.5, 0.9, 0.4]).ci95 is None
    assert np.isfinite(band(Grid.of(four), fewest=2)).all()  # seeds are told by their own number


def test_the_interval_is_scipys_percentile_bootstrap() -> None:
    values = np.random.default_rng(1).normal(0.1, 0.2, 30)
    ours = interval(values)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.004)
    assert ours == interval(values)
    assert interval(values[:4]) is None and interval(np.array([0.1, math.nan])) is None


def test_only_an_interval_without_0_makes_a_method_better(tmp_path: Path) -> None:
    frame = read_run(
        make_run(
            tmp_path,
            {
                "fedavg": lambda r, i: 0.5 + 0.01 * i,
                "local": lambda r, i: 0.4 + 0.02 * i,  # 0.10, 0.09, 0.08, 0.07, 0.06 below
                "ditto": lambda r, i: 0.5 + (0.1 if i % 2 else -0.1),
            },
            people=(*PEOPLE, "fay"),
        )
    )
    found = {(pair.first, pair.second): pair for pair in pairs(frame)}
    assert list(found) == [("fedavg", "local"), ("fedavg", "ditto"), ("local", "ditto")]
    clear, unclear = found["fedavg", "local"], found["fedavg", "ditto"]
    assert clear.difference == pytest.approx(0.08) and clear.n == 5 and clear.round == "3"
    assert clear.low is not None and 0.06 <= clear.low < 0.08
    assert clear.better == "", "five people: all gain by chance in one case of sixteen"
    assert replace(clear, n=6).better == "fedavg"
    assert unclear.low is not None and unclear.high is not None and unclear.low < 0 < unclear.high
    assert unclear.better == "" == replace(unclear, n=6).better, "however many people"
    assert gains(frame)["fedavg"]["eve"] == pytest.approx(0.07)
    assert gains(Frame(frame.of("fedavg"))) == {}


def test_methods_meet_in_the_last_round_that_both_have(tmp_path: Path) -> None:
    scores = {"fedavg": lambda r, i: 0.1 * r, "local": lambda r, i: 0.3}
    frame = read_run(make_run(tmp_path, scores, done={"fedavg": 2}))
    round, each = differences(frame, "fedavg", "local")
    assert round == "2" and list(each.values()) == pytest.approx([-0.1] * 4)


def test_people_without_test_samples_are_in_no_number(tmp_path: Path) -> None:
    scores = {"fedavg": lambda r, i: 0.5 if i else math.nan, "local": lambda r, i: 0.4}
    made = make_run(tmp_path, scores, examples=lambda r, i: 10 if i else 0)
    (pair,) = pairs(read_run(made))
    assert pair.n == 3 and pair.difference == pytest.approx(0.1)


def test_several_seeds_are_the_units(tmp_path: Path) -> None:
    """A study's frame: one run's traces twice, the second under another seed."""
    one = read_run(
        make_run(tmp_path / "1", {"fedavg": lambda r, i: 0.5, "local": lambda r, i: 0.4})
    )
    two = read_run(
        make_run(tmp_path / "2", {"fedavg": lambda r, i: 0.7, "local": lambda r, i: 0.4})
    )
    study = Frame([*one.traces, *(replace(trace, seed=1) for trace in two.traces)])
    grid = study.units("fedavg", "macro_f1")
    assert study.unit == "seeds" and grid.columns == ("0", "1") and grid.rounds == (1, 2, 3)
    assert grid.values[-1] == pytest.approx([0.5, 0.7])
    assert differences(study, "fedavg", "local")[1]["cy"] == pytest.approx(0.2)


def test_of_a_target_the_smaller_error_is_the_gain(tmp_path: Path) -> None:
    """As in the summary: who has a smaller mean absolute error is better off."""
    errors = {"local": 4.0, "fedavg": 3.0, "ditto": 5.0}
    people = tuple("abcdefgh")
    scores = {name: partial(lambda e, r, i: e + i, error) for name, error in errors.items()}
    folder = make_run(
        tmp_path,
        scores,
        people=people,
        also=weak,
        keys={"loss": "squared"},
        target=True,
        examples=lambda round, place: 10 * round,
    )
    frame = read_run(folder)
    found = gains(frame)
    assert found == {"fedavg": dict.fromkeys(people, 1.0), "ditto": dict.fromkeys(people, -1.0)}
    for trace in frame.traces[1:]:
        assert trace.summary.gain_over_twin == np.mean([*found[trace.method].values()])
    rows = beats_twin(frame, pairs(frame))
    assert rows is not None and rows.head[2] == "negative MAE"
    assert [row[1] for row in rows.rows] == ["better", "worse"]
    path, _ = write_report(folder)
    page = path.read_text("utf-8")
    assert "Without others: local (the same model trained alone) 7.5." in page
    assert "Against local: fedavg +1.000 (better), ditto -1.000 (worse)." in page
    assert "nats" not in page and "macro f1" not in page.lower()
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert {"mae", "r2", "loss", "gains"} <= drawn
    table = (folder / "tables/capacities.csv").read_text().splitlines()
    assert table[0].endswith("people,mae,r2,loss") and table[1].endswith(",4,7.0,0.3,1.0")
    (columns,) = (
        c for c, _ in tables_of([t.summary for t in frame.traces]) if "MAE at" in c[-1].title
    )
    assert columns[1].cell(frame.traces[0].summary) == "7.000"
