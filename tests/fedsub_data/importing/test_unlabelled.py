"""Samples without a label: kept apart, cut as the others, and those that `fedsub adapt` takes."""

from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub.newcomers.people import read_people
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError

from .made_tables import imported, lines, written


def table(path: Path, unlabelled: dict[str, slice]) -> Path:
    """The table in which some rows of people have no label."""
    head, *rest = lines()
    rows = [line.split(",") for line in rest]
    for person, some in unlabelled.items():
        for row in [row for row in rows if row[0] == person][some]:
            row[1] = ""
    return written(path, [head, *map(",".join, rows)])


def test_they_lie_beside_the_others_and_lose_nothing(tmp_path: Path) -> None:
    """Of 12 s in windows of 2 s 01 lacks the last three labels, 02 all of them."""
    path = table(tmp_path / "a.csv", {"01": slice(60, 120), "02": slice(0, 120)})
    made = imported(path, tmp_path / "out", unlabelled="keep")
    assert made.people == 2
    assert made.unlabelled == {"01": 3, "02": 6}
    assert "Kept without a label: 9 samples of 2 people" in " ".join(made.notes)
    labelled = read_federation(tmp_path / "out")
    assert {name: len(data.y) for name, data in labelled.clients.items()} == {"01": 3, "03": 6}
    apart = read_people(str(tmp_path / "out" / "unlabelled"))
    assert apart.unlabelled == {"01", "02"}
    assert apart.card == labelled.card
    assert apart.clients["01"].t is not None
    assert apart.clients["01"].t.tolist() == [6.0, 8.0, 10.0]
    whole = fedsub.federation(str(table(tmp_path / "b.csv", {})), window="2s", overlap=0.0)
    np.testing.assert_array_equal(
        np.concatenate([labelled.clients["01"].x, apart.clients["01"].x]), whole.clients["01"].x
    )


def test_rows_that_are_samples_are_kept_too(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", {"01": slice(0, 5)})
    made = imported(path, tmp_path / "out", unlabelled="keep", window="none", time="time")
    assert made.unlabelled == {"01": 5}


def test_without_any_there_is_no_folder(tmp_path: Path) -> None:
    imported(table(tmp_path / "a.csv", {}), tmp_path / "out", unlabelled="keep")
    assert not (tmp_path / "out" / "unlabelled").exists()


def test_a_table_without_any_label_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", dict.fromkeys(("01", "02", "03"), slice(0, 120)))
    with pytest.raises(DataError, match="no row with a label"):
        imported(path, tmp_path / "out", unlabelled="keep")
    assert not (tmp_path / "out").exists()


def test_in_memory_they_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unlabelled.*keep"):
        fedsub.federation(str(table(tmp_path / "a.csv", {})), unlabelled="keep")
