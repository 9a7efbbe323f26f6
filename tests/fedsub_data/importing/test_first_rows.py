"""First rows that are no part of a recording: lines of facts, a sensor that starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Why

from .made_tables import imported, lines, written


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
