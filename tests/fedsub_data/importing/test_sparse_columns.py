"""Columns that are empty in most rows are named before rows are dropped for them."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub_core.errors import DataError

from .made_tables import as_parquet, imported, lines, written


def merged(path: Path, people: tuple[str, ...] = ("01", "02", "03"), every: int = 20) -> Path:
    """The table with a pulse, of some people, in every so many rows."""
    made = [f"{lines()[0]},pulse"]
    for i, line in enumerate(lines()[1:]):
        there = i % every == 0 or line[:2] not in people
        made.append(f"{line},{60 + i % 7 if there else ''}")
    return written(path, made)


def test_a_slow_sensor_beside_a_fast_one_is_asked_about(tmp_path: Path) -> None:
    path = merged(tmp_path / "a.csv")
    with pytest.raises(DataError) as error:
        imported(path, tmp_path / "out")
    assert str(error.value) == (
        "column 'pulse' is empty in 95 % of 360 rows; expected values in most. --features ax,ay "
        "takes the others alone, --missing interpolate --gap 3s fills the 2 s between values, "
        "--features pulse,ax,ay drops such rows"
    )
    for way in (as_parquet(path), path):
        with pytest.raises(DataError, match=r"--gap 3s fills") as error:
            imported(way, tmp_path / "out", missing="interpolate")
        assert "--missing" not in str(error.value)  # it was given
    assert imported(path, tmp_path / "without", features="ax,ay").samples == 18
    made = imported(path, tmp_path / "filled", missing="interpolate", gap="3s")
    assert "column 'pulse' is empty in 95 % of 360 rows; they are interpolated." in made.notes
    assert made.samples == 15
    (hint,) = [one for one in made.dropped.sentences() if "an empty cell" in one]
    assert "--missing" not in hint and "--gap" in hint


def test_a_column_that_was_named_is_told(tmp_path: Path) -> None:
    path = merged(tmp_path / "a.csv")
    made = imported(path, tmp_path / "out", features="ax,pulse", window="none")
    said = "column 'pulse' is empty in 95 % of 360 rows, and these are dropped. --features ax "
    assert any(note.startswith(said) for note in made.notes) and made.samples == 18
    again = "person '01': got 0.5 samples a second, as 114 rows lack a value, the median over"
    with pytest.raises(DataError, match=again):
        imported(path, tmp_path / "none", features="ax,pulse")


def test_people_without_a_sensor_are_told(tmp_path: Path) -> None:
    made = imported(merged(tmp_path / "a.csv", ("02",), 1000), tmp_path / "out")
    assert "column 'pulse' is empty in most rows of 02." in made.notes


def test_features_of_samples_and_windows_are_asked_about(tmp_path: Path) -> None:
    path = merged(tmp_path / "a.csv")
    said = re.escape("'pulse' is empty in 95 % of 360 rows; expected values in most. --features")
    with pytest.raises(DataError, match=said) as error:
        imported(path, tmp_path / "out", window="none")
    assert "interpolate" not in str(error.value)
    with pytest.raises(DataError, match="features='ax,ay' takes the others"):
        fedsub.federation(pd.read_csv(path))
    x = np.random.default_rng(0).normal(size=(20, 2, 16))
    x[4:, 1, 3] = np.nan
    np.savez(tmp_path / "w.npz", x=x, y=np.arange(20) // 2 % 2, subject=np.arange(20) % 2)
    made = imported(tmp_path / "w.npz", tmp_path / "out", window="auto", fewest=2)
    assert "column 'x2' is empty in 80 % of 20 rows, and these are dropped." in made.notes
    with pytest.raises(DataError, match=r"empty cell or NaN \(8 of this person"):
        imported(tmp_path / "w.npz", tmp_path / "none", window="auto", missing="stop")


def test_several_are_named_together(tmp_path: Path) -> None:
    text = merged(tmp_path / "a.csv").read_text("utf-8").splitlines()
    rows = [f"{line},{i if i % 50 == 0 else ''}" for i, line in enumerate(text[1:])]
    path = written(tmp_path / "b.csv", [f"{text[0]},warmth", *rows])
    said = (
        "column 'pulse' is empty in 95 % of 360 rows; column 'warmth' is empty in 98 % of 360 "
        "rows; expected values in most. --features ax,ay takes the others alone, --missing "
        "interpolate --gap 7.5s fills the 5 s between values"
    )
    with pytest.raises(DataError, match=re.escape(said)):
        imported(path, tmp_path / "out")
