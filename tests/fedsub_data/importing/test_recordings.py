"""Recordings in a file are not sorted into each other, nor read with the newest row first."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.recordings import interleaved
from fedsub_data.importing.source import Rows

from .made_tables import as_parquet, imported, lines, written

SECONDS = np.arange(200) / 10


def rows(*recordings: np.ndarray) -> Rows:
    """Rows of recordings, one behind the other, with values of their own."""
    t = np.concatenate(recordings)
    x = np.random.default_rng(len(t)).normal(size=(len(t), 2)).astype(np.float32)
    none = np.zeros(len(t), np.int64)
    return Rows("p", none, np.arange(len(t)), none, t, x)


def sorted_together(one: Rows) -> bool:
    assert one.t is not None
    return bool(interleaved(one, np.argsort(one.t, kind="stable")))


@pytest.mark.parametrize(
    "recordings",
    [
        (SECONDS, SECONDS),
        (SECONDS, SECONDS + 0.05),
        (SECONDS, SECONDS[:100] + 0.003, SECONDS + 0.06),
        (SECONDS, SECONDS + 18.03),
        (np.sort(SECONDS + np.random.default_rng(1).normal(0, 0.01, 200)), SECONDS),
    ],
    ids=["at once", "in turns", "three", "the ends", "unsteady"],
)
def test_recordings_that_would_take_turns_are_found(recordings: tuple[np.ndarray, ...]) -> None:
    assert sorted_together(rows(*recordings))


@pytest.mark.parametrize(
    "t",
    [
        SECONDS[::-1],
        np.r_[SECONDS[100:], SECONDS[:100]],
        SECONDS.reshape(-1, 2)[:, ::-1].ravel(),
        np.r_[SECONDS[:50], SECONDS[60:120], SECONDS[50:60], SECONDS[120:]],
        np.sort(np.random.default_rng(2).exponential(1, 200))[::-1],
        np.repeat(np.arange(20.0), 10)[::-1],
        np.random.default_rng(3).permutation(SECONDS),
        np.random.default_rng(4).permutation(np.random.default_rng(4).exponential(1, 200)),
    ],
    ids=["newest first", "halves", "in pairs", "a late packet", "unsteady", "whole seconds",
         "shuffled", "events, shuffled"],
)  # fmt: skip
def test_rows_of_one_recording_may_be_sorted(t: np.ndarray) -> None:
    assert not sorted_together(rows(t))


def test_rows_that_stand_there_twice_are_no_recording() -> None:
    one = rows(SECONDS, SECONDS)
    one.x[200:] = one.x[:200]
    assert not sorted_together(one)


def test_a_file_of_recordings_is_split_and_never_sorted(tmp_path: Path) -> None:
    """Each of three people has two recordings from 0, of which the second is a little late."""
    text = lines()
    for line in lines()[1:]:
        user, state, t, x, y = line.split(",")
        text.append(f"{user},{state},{float(t) + 0.003:.3f},{float(x) + 1:.4f},{y}")
    path = written(tmp_path / "a.csv", text)
    for backwards in ("stop", "sort"):
        with pytest.raises(DataError) as error:
            imported(path, tmp_path / "out", backwards=backwards)
        said = str(error.value)
        assert "line 362, column 'time': got '0.003': person '01'" in said
        assert "--backwards split" in said and "--backwards sort" not in said
    assert imported(path, tmp_path / "out", backwards="split").samples == 36


def test_shuffled_rows_are_sorted(tmp_path: Path) -> None:
    """As a database returns them that was asked for no order: split, each row is a recording."""
    head, *rest = lines()
    path = written(tmp_path / "a.csv", [head, *np.random.default_rng(5).permutation(rest)])
    with refused(DataError, "--backwards sort"):
        imported(path, tmp_path / "out")
    assert imported(path, tmp_path / "out", backwards="sort").samples == 18


def newest_first(path: Path) -> Path:
    """The table from its last row to its first."""
    head, *rest = lines()
    return written(path, [head, *rest[::-1]])


@pytest.mark.parametrize("given", [{}, {"rate": 10.0}, {"backwards": "split"}])
def test_files_with_the_newest_row_first_are_named_with_the_one_way_out(
    tmp_path: Path, given: dict[str, object]
) -> None:
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


def test_the_newest_row_is_first_in_parquet_and_in_a_table_in_memory(tmp_path: Path) -> None:
    path = newest_first(tmp_path / "a.csv")
    with pytest.raises(DataError, match="the newest row is the first"):
        imported(as_parquet(path), tmp_path / "out")
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match=r"the newest row is the first.*backwards='sort' puts"):
        fedsub.federation(frame)
    made = fedsub.federation(frame, backwards="sort", window="2s", overlap=0)
    assert made.clients["3"].x.shape == (6, 2, 20)


def test_rows_that_are_samples_may_stand_in_any_order(tmp_path: Path) -> None:
    path = newest_first(tmp_path / "a.csv")
    assert imported(path, tmp_path / "out", window="none").samples == 360
