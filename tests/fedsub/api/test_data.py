"""Data from Python: DataFrames and arrays, and what of them is refused."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, DataError

from .people import people


def frame() -> pd.DataFrame:
    """A signal of 10 Hz of three people, 80 rows each."""
    return pd.DataFrame(
        {
            "user": np.repeat(["01", "02", "03"], 80),
            "state": np.tile(np.repeat(["walk", "sit"], 40), 3),
            "time": np.tile(np.arange(80) / 10, 3),
            "ax": np.sin(np.arange(240)),
            "ay": np.cos(np.arange(240)),
        }
    )


def test_a_frame_is_windowed_as_its_file_would_be(tmp_path: Path) -> None:
    made = fedsub.federation(frame(), window="2s", overlap=0.0)
    frame().to_csv(tmp_path / "walks.csv", index=False)
    read = fedsub.federation(tmp_path / "walks.csv", window=2, overlap=0.0)
    assert list(made.clients) == list(read.clients) == ["01", "02", "03"]
    assert made.card.classes == ("sit", "walk") and made.card.sampling_rate_hz == 10
    for name, data in made.clients.items():
        assert data.x.shape == (4, 2, 20)
        np.testing.assert_allclose(data.x, read.clients[name].x, atol=1e-6)
        assert np.array_equal(data.y, read.clients[name].y)


def test_a_time_that_is_the_index_is_a_column() -> None:
    indexed = frame().set_index("time")
    assert fedsub.federation(indexed, window="2s").card.window_s == 2
    dated = frame()
    dated["time"] = pd.Timestamp("2026-01-01", tz="Europe/Rome") + pd.to_timedelta(
        dated["time"], unit="s"
    )
    data = fedsub.federation(dated, window="2s").clients["01"]
    assert data.t is not None and data.t[0] == 1767222000.0  # midnight in Rome is 23 h UTC


def test_categories_and_whole_numbers_stay_what_they_are() -> None:
    table = frame().astype({"user": "category", "state": "category"})
    table["user"] = table["user"].cat.rename_categories({"01": "1", "02": "2", "03": "10"})
    assert list(fedsub.federation(table, window="2s").clients) == ["1", "10", "2"]
    table["user"] = table["user"].astype(int)
    assert list(fedsub.federation(table, window="2s").clients) == ["1", "10", "2"]


def test_an_index_of_floats_is_refused() -> None:
    table = frame()
    table.index = table.index / 10
    with refused(DataError, "index", "float64", "rename_axis('time')"):
        fedsub.federation(table)
    assert fedsub.federation(table.reset_index(drop=True), window="2s").clients


def test_an_index_with_a_columns_name_is_refused() -> None:
    table = frame().rename_axis("time")
    with refused(DataError, "'time'", "index", "column"):
        fedsub.federation(table)


def test_cells_that_are_missing_or_no_numbers_are_named(caplog: pytest.LogCaptureFixture) -> None:
    table = frame().astype({"user": "string", "ax": object})  # pandas' own text, with pd.NA
    table.loc[9, "user"] = pd.NA
    assert list(fedsub.federation(table, window="2s").clients) == ["01", "02", "03"]
    assert "Dropped 1 rows of nobody" in caplog.text
    table.at[7, "ax"] = np.arange(2)
    with refused(DataError, "row 8", "column 'ax'", got="array([0, 1])"):
        fedsub.federation(table)
    table["ax"] = [[1, 2]] * len(table)
    assert fedsub.federation(table, window="2s").card.features == ("ay",)
    with pytest.raises(DataError, match=r"column 'ax': got \[1, 2\]"):
        fedsub.federation(table, window="2s", features=["ax"])


def test_a_column_of_mixed_types_is_refused() -> None:
    table = frame().astype({"user": object})
    table.loc[7, "user"] = 1
    with refused(DataError, "column 'user'", got=["mixed types", "1 of int"]):
        fedsub.federation(table)
    table = frame().astype({"ax": object})
    table.loc[7, "ax"] = "high"
    with pytest.raises(DataError, match=r"row 8, column 'ax': got 'high'"):
        fedsub.federation(table)


def test_what_is_missing_is_dropped_and_told(caplog: pytest.LogCaptureFixture) -> None:
    table = frame()
    table.loc[7, "ax"] = np.nan
    table.loc[9, "user"] = None
    with caplog.at_level(logging.INFO, "fedsub"):
        fedsub.federation(table, window="2s")
    told = {record.levelname: record.getMessage() for record in caplog.records}
    assert "Guessed" in told["INFO"]
    dropped = " ".join(r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert "rows with an empty cell or NaN" in dropped and "row 8, column 'ax'" in dropped
    assert "Dropped 1 rows of nobody" in dropped


def test_arrays_by_person_and_all_at_once() -> None:
    each = people()
    by_person = fedsub.federation(each, features=["f", "g", "h", "i"])
    assert by_person.card.features == ("f", "g", "h", "i")
    x, y = (np.concatenate([arrays[i] for arrays in each.values()]) for i in (0, 1))
    together = fedsub.federation((x, y, np.repeat(list(each), 40)))
    for name, (own, labels) in each.items():
        for made in (by_person, together):
            assert np.array_equal(made.clients[name].x, own)
            assert [made.card.classes[i] for i in made.clients[name].y] == labels.tolist()


def test_windows_stay_windows() -> None:
    x = np.zeros((6, 3, 32), np.float32)
    x[::2] = 1
    data = {name: (x, [0, 1] * 3, np.arange(6) * 2.0) for name in ("a", "b")}
    made = fedsub.federation(data, rate=16.0)
    assert made.clients["a"].x.shape == (6, 3, 32) and made.card.sampling_rate_hz == 16
    t = made.clients["a"].t
    assert t is not None and t.tolist() == [0, 2, 4, 6, 8, 10]
    days = {n: (x, y, np.datetime64("2024-01-01") + np.arange(6)) for n, (x, y, _) in data.items()}
    dated = fedsub.federation(days).clients["a"].t
    assert dated is not None and np.diff(dated).tolist() == [86_400.0] * 5


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "got nobody"),
        ({"a": 3}, "person 'a': got int, expected"),
        ({"a": (np.zeros((3, 2)), [0, 1])}, r"person 'a': y: got shape \(2,\)"),
        ((np.zeros((3, 2)), [0, 1, 0]), "a tuple of 2"),
        ({"a": (np.zeros(3), [0, 1, 0])}, r"x: got float64 of shape \(3,\)"),
        ({"a": (3, [0, 1])}, r"person 'a': x: got int64 of shape \(\)"),
        ({"a": ([[1, 2], [3]], [0, 1])}, "person 'a': x: got rows of different lengths"),
        ({1: (np.zeros((2, 2)), [0, 1]), "1": (np.zeros((2, 2)), [0, 1])}, "got two people '1'"),
        (3, "got int, expected a folder"),
        ("no such file.csv", "no such file"),
    ],
)
def test_other_data_are_refused(data: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fedsub.federation(data)


def test_options_that_do_not_exist_are_refused() -> None:
    with refused(ConfigError, "'widow'", "'window'"):
        fedsub.federation(frame(), widow="2s")
    with pytest.raises(ConfigError, match="its samples are made"):
        fedsub.federation("watch", window="2s")


def test_a_federation_is_saved_and_read_again(tmp_path: Path) -> None:
    fedsub.save(fedsub.federation(people()), tmp_path / "saved")
    read = fedsub.federation(tmp_path / "saved")
    assert np.array_equal(read.clients["02"].x, people()["02"][0])
