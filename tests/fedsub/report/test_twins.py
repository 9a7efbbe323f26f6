"""A run's page goes by what people have without others: own heads or `local`, whichever is more."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedsub.report.comparing import gains, means_of_twins, pairs, twin
from fedsub.report.frame import Frame
from fedsub.report.page import lead
from fedsub.report.reading import read_run
from fedsub.report.report import write_report
from fedsub_server.results import method_summaries, summarise_run
from fedsub_server.tables import tables_of, twin_in_words

from .made_runs import make_run, own_heads

PEOPLE = tuple("abcdefgh")
#: `local` has not converged; own heads have, and others cost everybody but the first something.
SCORES = {
    "fedsub-ridge": lambda r, i: 0.9 if i else 1.0,
    "local": lambda r, i: 0.1 * r + 0.01 * i,
}


def heads(place: int) -> float:
    return 0.95


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", SCORES, people=PEOPLE, also=own_heads(heads))


@pytest.mark.usefixtures("blank_figures")
def test_the_headline_names_own_heads_where_they_are_the_better_twin(folder: Path) -> None:
    frame = read_run(folder)
    assert twin(frame) == "own heads"
    assert means_of_twins(frame) == pytest.approx({"local": 0.335, "own heads": 0.95})
    said = " ".join(lead(frame, pairs(frame)))
    assert (
        "Without others: own heads (a head solved of each person's own samples alone) 0.950, "
        in said
    )
    assert "local (the same model trained alone) 0.335." in said
    assert "Against own heads: fedsub-ridge -0.038 (worse), local -0.615 (worse)." in said
    page = write_report(folder)[0].read_text("utf-8")
    assert "against own heads" in page and "worse than own heads" in page
    assert "hollow ones are worse off than with own heads." in page
    with (folder / "tables" / "people.csv").open() as file:
        people = {row["person"]: row for row in csv.DictReader(file)}
    assert people["b"]["own heads"] == "0.95"
    assert float(people["b"]["gain of fedsub-ridge over own heads"]) == pytest.approx(-0.05)
    assert gains(frame)["fedsub-ridge"]["a"] == pytest.approx(0.05)


def test_summary_and_terminal_go_by_it_too(folder: Path) -> None:
    found = summarise_run(folder)["methods"]
    ridge, local = found["fedsub-ridge"], found["local"]
    assert ridge["twin"] == local["twin"] == "own heads"
    assert ridge["gain_over_twin"] == pytest.approx(-0.0375)
    assert ridge["worse_than_twin"] == pytest.approx(7 / 8) and local["worse_than_twin"] == 1
    assert ridge["own_heads_macro_f1"] == pytest.approx(0.95)
    assert ridge["own_heads_loss"] == pytest.approx(0.1)
    assert json.loads((folder / "summary.json").read_text())["methods"] == found
    summaries = method_summaries(folder)
    (columns, rows), *_ = tables_of(summaries)
    assert columns[-1].title == "worse than\nown heads"
    assert [one.method for one in rows] == ["fedsub-ridge", "local", "own heads"]
    assert rows[-1].macro_f1 == pytest.approx(0.95) and rows[-1].clients == 8
    assert twin_in_words(summaries) == (
        "Held against own heads: a head solved of each person's own samples alone. Local, the "
        "same model trained alone, reached 0.335."
    )


def test_local_is_the_twin_where_it_reaches_more(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SCORES, people=PEOPLE, also=own_heads(lambda place: 0.2))
    frame = read_run(folder)
    assert twin(frame) == "local"
    assert "Against local: fedsub-ridge +0.578 (better)," in " ".join(lead(frame, pairs(frame)))
    ridge, local = method_summaries(folder)
    assert (ridge.twin, ridge.worse_than_twin, local.twin) == ("local", 0, None)


def test_without_local_own_heads_are_the_twin_and_without_both_there_is_none(
    tmp_path: Path,
) -> None:
    one = {"fedsub-ridge": SCORES["fedsub-ridge"]}
    folder = make_run(tmp_path / "own", one, people=PEOPLE, also=own_heads(heads))
    assert twin(read_run(folder)) == "own heads"
    assert "Against own heads: fedsub-ridge -0.038" in " ".join(
        lead(read_run(folder), pairs(read_run(folder)))
    )
    frame = read_run(make_run(tmp_path / "none", one, people=PEOPLE))
    assert twin(frame) == "" and gains(frame) == {}


def test_of_several_seeds_one_twin_is_all_peoples(folder: Path) -> None:
    traces = read_run(folder).traces
    frame = Frame([*traces, *(replace(trace, seed=7) for trace in traces)])
    assert twin(frame) == "own heads"
    assert gains(frame)["fedsub-ridge"]["b"] == pytest.approx(-0.05)


@pytest.mark.parametrize(("loss", "said"), [(lambda r: 2 - 0.1 * r, True), (lambda r: 1.0, False)])
def test_a_loss_that_still_falls_is_said(
    tmp_path: Path, loss: Callable[[int], float], said: bool
) -> None:
    folder = make_run(tmp_path / "run", SCORES, people=PEOPLE, rounds=12, loss=loss)
    frame = read_run(folder)
    assert (
        "Not converged: fedsub-ridge, local. The loss still fell by more than 5%"
        in (" ".join(lead(frame, pairs(frame))))
    ) == said
    assert [one.still_falls for one in method_summaries(folder)] == [said, said]
