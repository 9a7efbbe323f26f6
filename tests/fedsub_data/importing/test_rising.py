"""Columns that rise as a time or a row number does are no features that are guessed."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.cover import turns
from fedsub_core.errors import DataError
from fedsub_data.importing.rising import rising

from .made_tables import imported, lines, written

ROWS = np.arange(60.0)
EPOCH = 1.7e9


def table(path: Path, column: str, values: list[object], mixed: bool = False) -> Path:
    """Two people's rows with one more column, sorted by person or in turns."""
    rng = np.random.default_rng(1)
    rows = [
        f"{'ab'[i % 2 if mixed else i // 60]};{'xy'[i // 7 % 2]};{value};{rng.normal():.4f}"
        for i, value in enumerate(values)
    ]
    return written(path, [f"user;activity;{column};ax", *rows])


@pytest.mark.parametrize(
    ("step", "start", "mixed"), turns([1.0, 0.02, 1e-6], [0.0, 45000.0], [True, False])
)
def test_a_column_that_rises_evenly_is_asked_about(
    tmp_path: Path, start: float, step: float, mixed: bool
) -> None:
    """Of rows, of seconds and in little steps; people one after another and in turns."""
    path = table(tmp_path / "a.csv", "Ablauf", [start + step * i for i in range(120)], mixed)
    with pytest.raises(DataError) as error:
        imported(path, tmp_path / "out", window="none")
    assert str(error.value) == (
        "out: got column 'Ablauf', which rises from row to row as a time or a row number does, "
        "expected features. If it is the time, say --time Ablauf. If not, name the features: "
        "--features ax leaves it out, --features Ablauf,ax keeps it"
    )
    assert not (tmp_path / "out").exists()
    for features in ("ax", "Ablauf,ax"):
        made = imported(path, tmp_path / features, window="none", features=features)
        assert ",".join(made.card.features) == features
    made = imported(path, tmp_path / "timed", window="none", time="Ablauf", time_unit="s")
    assert made.card.features == ("ax",)


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_dates_in_numbers_need_not_rise_evenly(tmp_path: Path, unit: int) -> None:
    seconds = [int(EPOCH + i // 10 + (500 if i > 30 else 0)) * unit for i in range(60)]
    path = table(tmp_path / "a.csv", "Ablauf", [*seconds, *seconds])
    with pytest.raises(DataError, match="got column 'Ablauf', which rises"):
        imported(path, tmp_path / "out", window="none")


def test_a_time_is_found_by_its_name_in_other_languages(tmp_path: Path) -> None:
    text = [line.replace(",", ";").replace(".", ",") for line in lines()]
    for column in ("Zeit", "Zeitstempel", "temps", "horodatage", "Tiempo", "marca_temporale"):
        text[0] = f"user;activity;{column};ax;ay"
        made = imported(written(tmp_path / "a.csv", text), tmp_path / column, decimal=",")
        assert made.samples == 18 and f"Guessed: --time {column}." in made.notes


def test_several_columns_are_named_together(tmp_path: Path) -> None:
    text = [f"{line},{i},{2 * i}" for i, line in enumerate(lines())]
    text[0] = "user,activity,time,ax,ay,frame no.,ticks"
    said = re.escape("got columns 'frame no.', 'ticks', which rise from row to row")
    with pytest.raises(DataError, match=said + ".*If one is the time, say --time 'frame no.'"):
        imported(written(tmp_path / "a.csv", text), tmp_path / "out")


def test_a_column_that_falls_for_others_is_a_feature(tmp_path: Path) -> None:
    """The first thousand rows are one person's, in whom something rises all the time."""
    values = [*range(1200), *(i % 7 for i in range(1200))]
    rows = [f"{'ab'[i // 1200]},{'xy'[i // 9 % 2]},{value}" for i, value in enumerate(values)]
    path = written(tmp_path / "a.csv", ["user,activity,level", *rows])
    assert imported(path, tmp_path / "out", window="none").card.features == ("level",)


def test_a_table_in_memory_is_asked_about_too() -> None:
    frame = pd.DataFrame(
        {
            "user": np.repeat(["a", "b"], 60),
            "state": np.tile(["x", "y"], 60),
            "Ablauf": np.tile(ROWS, 2),
            "ax": np.sin(np.arange(120)),
        }
    )
    with pytest.raises(DataError, match="got column 'Ablauf', which rises"):
        fedsub.federation(frame)
    assert fedsub.federation(frame, features="ax").card.features == ("ax",)


@pytest.mark.parametrize(
    "values",
    [
        np.sin(ROWS),
        np.repeat(4.9176e9, 60),  # one telephone number
        np.cumsum(np.random.default_rng(0).exponential(size=60)),  # a way that grows unevenly
        np.sort(np.random.default_rng(0).normal(size=60)),
        ROWS // 10,
        ROWS % 20,
        np.full(60, np.nan),
    ],
    ids=["waves", "constant", "way", "sorted", "sessions", "phase", "empty"],
)
def test_other_columns_are_none(values: np.ndarray) -> None:
    assert rising({"f": values}, ["a"] * 60) == ()


@pytest.mark.filterwarnings("error")
def test_text_among_the_numbers_hides_nothing(tmp_path: Path) -> None:
    """Text is infinite in the rows, and the difference of two such cells is no number."""
    values = [str(i) if i % 30 else "?!" for i in range(120)]
    values[60] = values[61] = "?!"
    path = table(tmp_path / "a.csv", "Ablauf", [*values])
    with pytest.raises(DataError, match="got column 'Ablauf', which rises"):
        imported(path, tmp_path / "out", window="none")


def test_few_rows_show_nothing_and_few_falls_are_new_recordings() -> None:
    assert rising({"f": np.arange(10.0)}, [None] * 10) == ()
    assert rising({"f": np.arange(11.0)}, [None] * 11) == ("f",)
    assert rising({"f": np.arange(1000.0) % 500}, ["a"] * 1000) == ("f",)
