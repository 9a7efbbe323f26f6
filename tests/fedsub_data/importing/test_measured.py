"""Labels that are measurements are refused: numbers are not predicted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub_core.errors import DataError
from fedsub_data.importing.labels import check_labels
from fedsub_data.importing.options import ImportOptions

from .made_tables import imported, written

DEFAULT, KEEP = ImportOptions(), ImportOptions(measured_labels="keep")


def whole(numbers: range | list[int]) -> list[str]:
    """Return whole numbers as labels."""
    return [str(one) for one in numbers]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([f"{i / 73:.4f}" for i in range(1, 41)], "40 labels that are decimal numbers"),
        (["0.5", "1", "2"], "3 labels that are decimal numbers from 0.5 to 2 (0.5, ...)"),
        ([*(f"{i},25" for i in range(30)), "unknown"], "31 labels that are decimal numbers"),
        (whole(range(60, 111)), "51 labels that are whole numbers from 60 to 110 (60, 61, 62"),
        (whole(range(0, 1000, 20)), "50 labels that are whole numbers from 0 to 980"),
        (whole(range(-25, 25)), "50 labels that are whole numbers from -25 to 24"),
    ],
    ids=["decimals", "doses", "commas", "heart", "steps", "degrees"],
)
def test_measurements_are_refused(labels: list[str], said: str) -> None:
    with pytest.raises(DataError) as error:
        check_labels(labels, DEFAULT, "out")
    text = str(error.value)
    assert text.startswith(f"out: got {said}") and "no regression" in text
    assert "--label" in text and "--measured-labels keep" in text
    assert check_labels(labels, KEEP, "out") == []


@pytest.mark.parametrize(
    "labels",
    [
        ["rest", "row"],
        ["-1", "0", "1"],
        whole([*range(8), 12, 13, 16, 17, 18, 19, 20, 24]),  # PAMAP2's activities
        whole([406516, 406517, 404516, 404517, 406520]),
        [f"v{i}.5" for i in range(40)],
        ["1.5", "word", "other"],
    ],
)
def test_classes_pass(labels: list[str]) -> None:
    assert check_labels(labels, DEFAULT, "out") == []


def test_many_numbers_that_count_pass_and_are_named() -> None:
    """As 52 gestures and a rest do. So could a scale, which is said."""
    (note,) = check_labels(whole(range(53)), DEFAULT, "out")
    assert note.startswith("53 labels are whole numbers from 0 to 52, taken as classes.")


def test_nothing_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    text = [f"u{i % 3},{rng.integers(60, 110)},{rng.normal():.3f}" for i in range(600)]
    path = written(tmp_path / "a.csv", ["user,heart_rate,ax", *text])
    with pytest.raises(DataError, match="whole numbers from 60 to 109"):
        imported(path, tmp_path / "out", label="heart_rate", window="none")
    assert not (tmp_path / "out").exists()
    made = imported(
        path, tmp_path / "out", label="heart_rate", window="none", measured_labels="keep"
    )
    assert len(made.card.classes) == 50


def test_arrays_are_refused_in_pythons_words() -> None:
    rng = np.random.default_rng(2)
    people = {one: (rng.normal(size=(30, 2)), rng.normal(size=30)) for one in "ab"}
    with pytest.raises(DataError, match=r"decimal numbers.*measured_labels"):
        fedsub.federation(people)
