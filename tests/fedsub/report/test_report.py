"""The report of runs of every kind: its parts, its files, what stands in them."""

import csv
import io
import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.report.comparing import pairs
from fedsub.report.comparison_rows import against_own, beats_twin
from fedsub.report.csv_tables import csv_files
from fedsub.report.frame import Frame, Grid
from fedsub.report.group_maps import group_maps, shared_clusters
from fedsub.report.reading import read_run
from fedsub.report.report import remove_report, write_report
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_data.inspection.drawing import DOTS_PER_INCH

from .html_checks import Page, checked
from .made_runs import PEOPLE, make_run

ALL = {"macro_f1", "loss", "gains", "people", "classes", "people_classes_1", "people_classes_2",
       "people_classes_3", "confusion_2", "clusters_1", "members_1", "groups_3"}  # fmt: skip


def figures(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "figures").iterdir()}


def read(folder: Path, again: int | None = None) -> Page:
    path, _ = write_report(folder, again)
    page = checked(path.read_text("utf-8"))
    drawn = [attrs["aria-labelledby"].split()[0] for attrs in page.all("svg")]
    assert {name.removesuffix("-title") for name in drawn} == figures(folder)
    links = {attrs["href"] for attrs in page.all("a") if not attrs["href"].startswith("#")}
    files = (*(folder / "figures").iterdir(), *(folder / "tables").iterdir())
    assert links == {file.relative_to(folder).as_posix() for file in files}
    return page


def test_a_whole_run(tmp_path: Path) -> None:
    scores = {
        "fedsub": lambda r, i: 0.5 + 0.1 * i,
        "local": lambda r, i: 0.4 + 0.1 * i + (0.3 if i == 2 else 0),
        "fedclar": lambda r, i: 0.3 + 0.1 * i,
    }
    page = read(make_run(tmp_path / "run", scores))
    folder = tmp_path / "run"
    assert figures(folder) == ALL
    text = "\n".join(page.texts)
    assert "di (-0.200)" in text  # who is worse off than with local training, and by how much
    assert "With 4 people no method is called better" in text and "0.500 to 0.800" not in text
    assert "/gone, 4 people, hash " in text and "lr = 0.02" in text and "10,000 resamples" in text
    assert "2.0 KiB" in text and "3 of 3" in text and "class 1" in text
    assert "ann & <bo>" in page.texts  # escaped in the page, itself again when parsed
    assert "When data came" not in text and "Not finished" not in text
    for path in (folder / "figures").iterdir():
        width, height = struct.unpack(">2I", path.read_bytes()[16:24])
        assert width > 4 * DOTS_PER_INCH and height > DOTS_PER_INCH
    with (folder / "tables" / "people.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["person"] for row in rows] == sorted(PEOPLE)
    assert float(rows[2]["gain of fedsub over local"]) == pytest.approx(-0.2)
    with (folder / "tables" / "people_classes.csv").open() as file:
        assert len(list(csv.reader(file))) == 1 + 3 * 7  # one of four people lacks a class
    assert "class 0: clusters of 4 people, 0 alone; class 1: clusters of 2 people, 1 alone." in text
    with (folder / "tables" / "clusters.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["person"], row["cluster"]) for row in rows if row["class"] == "class 1"] == [
        ("cy", "0"), ("di", "1"), ("eve", "1"),
    ]  # fmt: skip
    assert (folder / "tables" / "confusion.csv").read_text().splitlines() == [
        "seed,method,class,people,predicted,share",
        "0,local,class 0,4,class 0,0.75",
        "0,local,class 0,4,class 1,0.25",
        "0,local,class 1,3,class 1,1.0",
    ]
    assert "local: share of each class's test samples by predicted class" in page.texts
    assert "Mean over 3 to 4 people of each class." in text
    before = {path: path.read_bytes() for path in folder.rglob("*.[hpc]*")}
    write_report(folder)
    assert {path: path.read_bytes() for path in before} == before
    assert remove_report(folder) and not remove_report(folder)
    assert {path.name for path in folder.iterdir()} == {"run.toml", *scores}


def test_the_page_says_what_noise_has_spent(tmp_path: Path) -> None:
    def spent(round: int, people: tuple[str, ...]) -> Iterator[MetricRow]:
        yield MetricRow(round, "", None, "epsilon", 2.0 * round)

    scores = {"fedavg": lambda r, i: 0.5, "local": lambda r, i: 0.4}
    keys = {"dp_noise": 3.0, "robust": "none", "standardise": "client"}
    noisy = read(make_run(tmp_path / "noisy", scores, also=spent, keys=keys))
    said = "fedavg: epsilon 6 at delta 1e-05, of all of one person, in the means that devices are"
    assert any(said in text for text in noisy.texts)
    plain = read(make_run(tmp_path / "plain", scores))
    assert not any("epsilon" in text for text in plain.texts)


def test_the_page_says_first_whether_training_alone_is_beaten(tmp_path: Path) -> None:
    scores = {
        "local": lambda r, i: 0.4 + 0.05 * i,
        "fedsub": lambda r, i: 0.5 + 0.05 * i,
        "fedavg": lambda r, i: 0.4 + 0.05 * i - (0.2 if i else -0.1),
        "ditto": lambda r, i: 0.4 + 0.05 * i + 0.1 * (-1) ** i,
    }
    people = tuple("abcdefgh")
    page = read(make_run(tmp_path / "run", scores, people=people))
    text = "\n".join(page.texts)
    assert (
        "Against local: fedsub +0.100 (better), fedavg -0.163 (worse), "
        "ditto +0.000 (no difference shown)."
    ) in text
    headings = [text for text in page.texts if text in ("Does it beat training alone?", "Methods")]
    # Twice each: in the list of parts, and above its part.
    assert headings == ["Does it beat training alone?", "Methods"] * 2
    frame = read_run(tmp_path / "run")
    found = beats_twin(frame, pairs(frame))
    assert found is not None
    cells = {row[0]: row[1:] for row in found.rows}
    assert cells["fedsub"] == ("better", "+0.100", "+0.100 to +0.100", "8 of 8", "0 of 8")
    assert cells["fedavg"][:2] == ("worse", "-0.163") and cells["fedavg"][3:] == (
        "1 of 8",
        "7 of 8",
    )
    assert cells["ditto"][0] == "no difference shown"
    few = read_run(make_run(tmp_path / "few", scores))
    found = beats_twin(few, pairs(few))
    assert found is not None and {row[1] for row in found.rows} == {"too few people to say"}
    assert {row[3] for row in found.rows} == {"–"}, "an interval over four people says nothing"


def test_colours_of_clusters_stay_where_their_first_person_does() -> None:
    rounds = (
        {"a": 5, "b": 5, "c": 2, "d": 2, "e": 1},  # a with b, c with d, e alone
        {"a": 0, "b": 1, "c": 3, "d": 3},  # e has not the class
        {"a": 1, "b": 0, "c": 1, "d": 0, "e": 0},  # others meet
        {"b": 7, "c": 8, "d": 8, "e": 7},
    )
    cells = {(r, who): float(one) for r, each in enumerate(rounds) for who, one in each.items()}
    found = shared_clusters(Grid.of(cells))
    nan = math.nan
    wanted = [[0, 0, 1, 1, -1], [-1, -1, 1, 1, nan], [0, 1, 0, 1, 1], [nan, 1, 0, 0, 1]]
    assert np.array_equal(found, np.array(wanted), equal_nan=True)


def test_more_groups_than_colours_are_said(tmp_path: Path) -> None:
    people = tuple(f"p{i:02}" for i in range(44))
    cells = {(1, p): float(i // 2) for i, p in enumerate(people)}
    assert shared_clusters(Grid.of(cells)).max() == 21
    (trace,) = read_run(make_run(tmp_path / "run", {"fedclar": lambda r, i: 0.5})).traces
    pairs = replace(trace, people={**trace.people, "group": Grid.of(cells)})
    for one, said in ((trace, False), (pairs, True)):
        (figure,) = group_maps(Frame([one]))
        assert ("Of more than 20 some have the same colour" in figure.words) == said


def test_a_mixture_of_models(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", {"fedsub-gated": lambda r, i: 0.5})
    text = "\n".join(read(folder).texts)
    assert "shares_1" in figures(folder) and "Of use to nobody: head." in text
    assert "+0.050" in text and "2 of 4, 50%" in text and "1 of 4, 25%" in text
    assert "eve (-0.100)" in text
    with (folder / "tables" / "shares.csv").open() as file:
        weights = {(row["person"], row["of"]): row["share"] for row in csv.DictReader(file)}
    assert float(weights["eve", "local"]) == 0.75 and float(weights["cy", "head"]) == 0


def test_of_several_seeds_people_are_counted_in_each(tmp_path: Path) -> None:
    (trace,) = read_run(make_run(tmp_path / "run", {"fedsub-gated": lambda r, i: 0.5})).traces
    found = against_own(Frame([trace, replace(trace, seed=7)]))
    assert found is not None
    (row,) = found.rows
    assert row[:4] == ("fedsub-gated", "+0.050", "4 of 8, 50%", "2 of 8, 25%")
    assert row[5] == "eve, seed 0 (-0.100), eve, seed 7 (-0.100)"


def test_a_run_interrupted_in_its_second_method_whose_loss_is_no_number(tmp_path: Path) -> None:
    scores = {name: (lambda r, i: 0.5) for name in ("fedavg", "local", "ditto", "apfl")}
    done = {"local": 1, "ditto": 0, "apfl": -1}
    page = read(make_run(tmp_path, scores, done=done, loss=math.nan), again=7)
    text = "\n".join(page.texts)
    assert "Not finished: local 1 of 3 rounds, ditto 0 of 3 rounds, apfl not begun." in text
    assert "nan" in page.texts and "no method is called better: chance alone" in text
    assert "loss" not in figures(tmp_path)
    refresh = [a for a in page.all("meta") if a.get("http-equiv") == "refresh"]
    assert refresh == [{"http-equiv": "refresh", "content": "7"}] and "every 7 seconds" in text


def test_one_method_and_one_person_without_run_toml(tmp_path: Path) -> None:
    made = make_run(tmp_path, {"fedavg": lambda r, i: 0.5}, people=("ann",))
    (made / "run.toml").unlink()
    page = read(made)
    assert figures(made) == {"macro_f1", "loss", "people", "classes", "people_classes_1"}
    text = "\n".join(page.texts)
    assert "mean over 1 person: fedavg 0.500" in text and "Which method is better" not in text
    assert not [a for a in page.all("meta") if a.get("http-equiv") == "refresh"]


def test_nothing_evaluated_yet(tmp_path: Path) -> None:
    page = read(make_run(tmp_path, {"fedsub": lambda r, i: 0.5}, done={"fedsub": 0}))
    assert "Nothing has been evaluated yet." in page.texts and figures(tmp_path) == set()


def test_a_spreadsheet_computes_no_name(tmp_path: Path) -> None:
    """Names of classes are whatever a federation's file says."""
    frame = read_run(make_run(tmp_path, {"local": lambda r, i: 0.5}))
    files = csv_files(replace(frame, classes=('=HYPERLINK("http://x")', "-1+1")), [], [])
    found = [row[0] for row in csv.reader(io.StringIO(files["classes.csv"]))]
    assert found == ["class", '\'=HYPERLINK("http://x")', "'-1+1"]


def test_a_folder_that_is_no_run_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="give the folder of a run"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []
