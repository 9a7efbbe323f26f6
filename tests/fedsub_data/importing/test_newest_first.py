"""Files whose newest row stands first."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError

from .made_tables import as_parquet, imported, lines, written


def newest_first(path: Path) -> Path:
    """The table from its last row to its first."""
    head, *rest = lines()
    return written(path, [head, *rest[::-1]])


@pytest.mark.parametrize("given", [{}, {"rate": 10.0}, {"backwards": "split"}])
def test_they_are_named_with_the_one_way_out(tmp_path: Path, given: dict[str, object]) -> None:
    path = newest_first(tmp_path / "a.csv")
    with pytest.raises(DataError) as error:
        imported(path, tmp_path / "out", **given)
    assert str(error.value) == (
        f"{path}, line 2, column 'time': got '11.900', person '03': got time that runs backwards "
        "in 119 of 119 steps: the newest row is the first (so in 3 recordings); expected the "
        "oldest first. --backwards sort puts rows in order of time"
    )
    sorted_ = given | {"backwards": "sort"}
    made = imported(path, tmp_path / "sorted", **sorted_)
    assert made.samples == 18 and made.card.sampling_rate_hz == 10 and not made.dropped.counts


def test_so_in_parquet_and_in_a_table_in_memory(tmp_path: Path) -> None:
    path = newest_first(tmp_path / "a.csv")
    with pytest.raises(DataError, match="the newest row is the first"):
        imported(as_parquet(path), tmp_path / "out")
    frame = pd.read_csv(path)
    with refused(DataError, "newest", "first", "backwards='sort'"):
        fedsub.federation(frame)
    made = fedsub.federation(frame, backwards="sort", window="2s", overlap=0)
    assert made.clients["3"].x.shape == (6, 2, 20)


def test_rows_that_are_samples_may_stand_in_any_order(tmp_path: Path) -> None:
    path = newest_first(tmp_path / "a.csv")
    assert imported(path, tmp_path / "out", window="none").samples == 360
