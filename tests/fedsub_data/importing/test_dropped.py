"""What is advised about what was dropped: no option that was given."""

from pathlib import Path

import pytest

import fedsub
from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.options import ImportOptions

from .made_tables import imported, lines, written


@pytest.mark.parametrize(
    ("why", "given", "advised"),
    [
        (Why.MISSING, {}, "--missing interpolate"),
        (Why.MISSING, {"missing": "interpolate"}, "--gap"),
        (Why.TIMELESS, {}, "--time COLUMN"),
        (Why.TIMELESS, {"time": "t"}, "correct them"),
        (Why.NOBODY, {}, "--subject COLUMN"),
        (Why.NOBODY, {"subject": "who"}, "whose they are"),
        (Why.FEW, {}, "a shorter --window"),
        (Why.FEW, {"fewest": 9}, "--fewest"),
    ],
)
def test_no_option_that_was_given_is_advised(why: Why, given: dict[str, str], advised: str) -> None:
    dropped = Dropped(options=ImportOptions(**given))  # type: ignore[arg-type]
    dropped.add(why, "p", 3)
    (said,) = dropped.sentences()
    way = said.split("To change this: ")[1]
    assert advised in way and not any(f"--{key} {value}" in way for key, value in given.items())


def test_samples_have_no_rows_around_them() -> None:
    dropped = Dropped(signal=False)
    dropped.add(Why.MISSING, "p", 3)
    assert "interpolate" not in dropped.sentences()[0]


def test_a_window_without_a_unit_is_said_to_be_seconds(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", lines())
    said = "--window 20 means 20 s; 20 samples at 10 Hz are --window 2s."
    with pytest.raises(DataError, match=said):
        imported(path, tmp_path / "out", window="20")
    with pytest.raises(DataError, match=r"window=20 means 20 s.*window='2s'"):
        fedsub.federation(str(path), window=20)
    path = written(tmp_path / "b.csv", [*lines(("01",), 600), *lines(("02",), 120)[1:]])
    made = imported(path, tmp_path / "some", window="20")
    assert made.people == 1 and said in made.notes
    made = imported(path, tmp_path / "unit", window="20s")
    assert not any("means" in note for note in made.notes)
    made = imported(path, tmp_path / "short", window="2")
    assert not any("means" in note for note in made.notes)
