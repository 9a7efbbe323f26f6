"""First rows that are no part of a recording: units, lines of facts, a sensor that starts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Why

from .made_tables import as_parquet, imported, lines, written


def with_first(folder: Path, first: list[str], people: tuple[str, ...] = ("01", "02")) -> str:
    """A file of each person, of which the first person's begins with more rows."""
    folder.mkdir()
    rows = [line.split(",") for line in lines(("01",))[1:]]
    text = [f"{state},{x},{y}" for _, state, _, x, y in rows]
    for person in people:
        more = first if person == people[0] else []
        written(folder / f"{person}.csv", ["activity,ax,ay", *more, *text])
    return str(folder)


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (["walk,1544027337.0,1544027337.0", "walk,1.5,1.5"], 2),
        (["walk,1544027337.0,1544027337.0"], 1),
        (["walk,0.1,-812.5"], 1),
        (["walk,0.1,-0.3", "walk,0.2,-0.4", "walk,95,-0.4"], 3),
    ],
    ids=["start and rate", "start", "a spike", "a late spike"],
)
def test_rows_far_off_all_later_ones_are_refused_dropped_or_kept(
    tmp_path: Path, first: list[str], count: int
) -> None:
    path = with_first(tmp_path / "rec", first)
    with pytest.raises(DataError, match=rf"01.csv, line 2, column .* \({count} of .*--first-rows"):
        imported(path, tmp_path / "out", rate=10.0)
    made = imported(path, tmp_path / "drop", rate=10.0, first_rows="drop")
    assert made.dropped.counts == {Why.FIRST: {"01": count}}
    one, other = read_federation(tmp_path / "drop").clients.values()
    assert np.array_equal(one.x, other.x)
    kept = imported(path, tmp_path / "keep", rate=10.0, first_rows="keep")
    assert Why.FIRST not in kept.dropped.counts


def test_rows_of_a_sensor_that_starts_are_named(tmp_path: Path) -> None:
    path = with_first(tmp_path / "rec", ["walk,2.5,2.5"] * 20)
    made = imported(path, tmp_path / "out", rate=10.0)
    (note,) = (note for note in made.notes if note.startswith("First rows"))
    assert "20 of '01' in 01.csv" in note and not made.dropped.counts.get(Why.FIRST)
    dropped = imported(path, tmp_path / "drop", rate=10.0, first_rows="drop")
    assert dropped.dropped.counts[Why.FIRST] == {"01": 20}


@pytest.mark.parametrize(
    "first",
    [
        ["walk,3,-3"],  # somebody picks it up
        ["walk,,"],
        ["walk,1.1411,-1.1411"] * 8,  # a value that comes again
        ["walk,0,0"] * 4,
    ],
)
def test_first_rows_of_a_recording_pass(tmp_path: Path, first: list[str]) -> None:
    path = with_first(tmp_path / "rec", first)
    made = imported(path, tmp_path / "out", rate=10.0)
    assert not any(note.startswith("First rows") for note in made.notes)


def test_tables_in_memory_are_looked_at_too_and_samples_are_not() -> None:
    x = np.random.default_rng(3).normal(size=(200, 2))
    x[0] = 1.5e9
    y, t = np.arange(200) // 25 % 2, np.arange(200) / 10
    people = {"ann": (x, y, t), "bob": (x[1:], y[1:], t[1:])}
    with pytest.raises(DataError, match=r"person 'ann', row 1.*first rows"):
        fedsub.federation(people, window="2s")
    assert len(fedsub.federation(people, window="none").clients["ann"].y) == 200


UNITS = "no units,no units,s,m/s^2,m/s^2"


def test_the_line_that_tells_excel_the_separator_is_skipped(tmp_path: Path) -> None:
    text = [line.replace(",", "|") for line in lines()]
    text[9] = "01|walk|0.800||1"
    for name, first in (("quoted", '"sep=|"'), ("plain", "sep=|")):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            path = written(tmp_path / f"{name}.csv", [first, *text], encoding)
            if name == "quoted" and encoding != "utf-8":
                with pytest.raises(DataError, match=r"line 1: got .* expected it without quotes"):
                    imported(path, tmp_path / "out")
                continue
            for given in ("", "|"):
                out = tmp_path / f"{name}-{encoding}-{given != ''}"
                made = imported(path, out, delimiter=given)
                assert made.samples == 18
                assert f"{path}, line 11, column 'ax'" in made.dropped.first[Why.MISSING]


def test_a_separator_that_separates_nothing_is_not_advised_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", lines())
    with pytest.raises(DataError, match="--delimiter ';' does not: without it, it is guessed"):
        imported(path, tmp_path / "out", delimiter=";")


def test_a_row_of_units_is_named_and_skipped_when_told(tmp_path: Path) -> None:
    head, *rest = lines()
    path = written(tmp_path / "a.csv", [head, UNITS, *rest])
    said = re.escape(
        f"a.csv: got {UNITS.replace(',', ', ')} below the names of columns, which seems to be a "
        "row of units, expected numbers. --skip 1 --time-unit s leaves it out"
    )
    for way in (path, as_parquet(path)):
        with pytest.raises(DataError, match=said.replace("a\\.csv", r"a\.(csv|parquet)")):
            imported(way, tmp_path / "out", not_numbers="drop")
    made = imported(path, tmp_path / "csv", skip=1, time_unit="s")
    assert made.samples == 18 and made.card.classes == ("sit", "walk") and made.people == 3
    assert not made.dropped.counts
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match="skip=1 time_unit='s' leaves it out"):
        fedsub.federation(frame)
    people = fedsub.federation(frame, skip=1, window="2s", overlap=0)
    assert people.clients["03"].x.shape == (6, 2, 20)


def test_a_row_behind_those_that_were_skipped_keeps_its_place(tmp_path: Path) -> None:
    head, *rest = lines()
    rest[7] = "01,walk,0.7,,1"
    path = written(tmp_path / "a.csv", [head, UNITS, "-,-,-,-,-", *rest])
    with pytest.raises(DataError, match="--skip 2 "):
        imported(path, tmp_path / "out")
    made = imported(path, tmp_path / "out", skip=2)
    first = made.dropped.first[Why.MISSING]
    assert first == f"{path}, line 11, column 'ax': got nothing, person '01'"
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match="row 10, column 'ax': got None"):
        fedsub.federation(frame, skip=2, missing="stop")


def test_one_text_in_the_first_row_is_no_row_of_units(tmp_path: Path) -> None:
    head, *rest = lines()
    rest[0] = "01,walk,0.000,error,1"
    path = written(tmp_path / "a.csv", [head, *rest])
    with pytest.raises(DataError, match=r"line 2, column 'ax': got 'error'.*--not-numbers drop"):
        imported(path, tmp_path / "out")
