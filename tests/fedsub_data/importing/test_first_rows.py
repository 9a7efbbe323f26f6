"""First rows that are no part of a recording: units, lines of facts, a sensor that starts."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
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


def test_a_row_of_units_is_left_out_and_its_units_are_used(tmp_path: Path) -> None:
    head, *rest = lines()
    path = written(tmp_path / "a.csv", [head, UNITS.replace("s,m", "ms,m", 1), *rest])
    made = imported(path, tmp_path / "csv", rate=10000.0, window="2ms")
    assert "Guessed: --time-unit ms." in made.notes
    assert made.card.units == "m/s^2" and made.samples == 18 and not made.dropped.counts
    note = f"Left out: the row of units in {path}: time ms, ax m/s^2, ay m/s^2."
    assert note in made.notes
    written(path, [head, UNITS, *rest])
    made = imported(path, tmp_path / "own", skip=1, time_unit="s", units="g")
    assert made.samples == 18 and made.card.units == "g"


def test_files_with_other_units_are_converted(tmp_path: Path) -> None:
    for name, unit, factor in (("a", "m/s^2", 1.0), ("b", "g", 9.80665), ("c", "m/(s^2)", 1.0)):
        rows = [line.split(",") for line in lines((name,))[1:]]
        own = [f"{r[1]},{r[2]},{float(r[3]) / factor:.6f},{float(r[4]) / factor:.6f}" for r in rows]
        written(
            tmp_path / "data" / f"{name}.csv", ["activity,time,ax,ay", f"-,s,{unit},{unit}", *own]
        )
    made = imported(tmp_path / "data", tmp_path / "out")
    people = read_federation(tmp_path / "out").clients
    np.testing.assert_allclose(people["a"].x, people["b"].x, atol=1e-3)
    assert any("converted to them, as" in note and "b.csv from g" in note for note in made.notes)
    own = [row.partition(",")[2] for row in lines(("d",))[1:]]
    written(tmp_path / "data" / "d.csv", ["activity,time,ax,ay", "-,s,rad/s,rad/s", *own])
    with refused(DataError, "d.csv", "'ax'", got="'rad/s'", expected="'m/s^2'"):
        imported(tmp_path / "data", tmp_path / "other")


def test_a_row_of_units_that_is_typed_is_named_and_skipped_when_told(tmp_path: Path) -> None:
    head, *rest = lines()
    path = written(tmp_path / "a.csv", [head, UNITS, *rest])
    said = re.escape(
        f"a.parquet: got {UNITS.replace(',', ', ')} below the names of columns, which seems to be "
        "a row of units, expected numbers. --skip 1 --time-unit s leaves it out"
    )
    with pytest.raises(DataError, match=said):
        imported(as_parquet(path), tmp_path / "out", not_numbers="drop")
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match="skip=1 time_unit='s' leaves it out"):
        fedsub.federation(frame)
    people = fedsub.federation(frame, skip=1, window="2s", overlap=0)
    assert people.clients["03"].x.shape == (6, 2, 20)


def test_a_row_behind_those_that_were_skipped_keeps_its_place(tmp_path: Path) -> None:
    head, *rest = lines()
    rest[7] = "01,walk,0.7,,1"
    path = written(tmp_path / "a.csv", [head, UNITS, "-,-,-,-,-", *rest])
    for number, skip in enumerate((0, 2)):
        made = imported(path, tmp_path / f"out{number}", skip=skip)
        first = made.dropped.first[Why.MISSING]
        assert first == f"{path}, line 11, column 'ax': got nothing, person '01'"
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match="row 10, column 'ax': got None"):
        fedsub.federation(frame, skip=2, missing="stop")


@pytest.mark.parametrize("row", ["01,walk,,,", "a,b,c,d,e", "01,walk,?,?,?"])
def test_text_below_the_names_that_is_no_unit_is_not_left_out(tmp_path: Path, row: str) -> None:
    head, *rest = lines()
    path = written(tmp_path / "a.csv", [head, row, *rest])
    try:
        made = imported(path, tmp_path / "out")
        assert not any("row of units" in note for note in made.notes)
        assert made.dropped.total(Why.MISSING) + made.dropped.total(Why.TIMELESS) == 1
    except DataError as error:
        assert row.startswith("a,b") and "--skip 1" in str(error)


def test_one_text_in_the_first_row_is_no_row_of_units(tmp_path: Path) -> None:
    head, *rest = lines()
    rest[0] = "01,walk,0.000,error,1"
    path = written(tmp_path / "a.csv", [head, *rest])
    with pytest.raises(DataError, match=r"line 2, column 'ax': got 'error'.*--not-numbers drop"):
        imported(path, tmp_path / "out")
