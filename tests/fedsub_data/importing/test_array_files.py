"""Files of arrays: npz, npy, and ts as sktime and aeon write it."""

from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing import array_files
from fedsub_data.importing.dropped import Why

from .made_tables import imported

TS = """# made
@problemName made
@timeStamps false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 4
@classLabel true walk sit
@data
1,2,3,4:5,6,7,8:walk
2,2,3,4:5,6,7,8:sit
3,2,?,4:5,6,7,8:sit
"""


def test_series_of_ts_files_are_windows(tmp_path: Path) -> None:
    for person in "ab":
        (tmp_path / f"{person}.ts").write_text(TS, "utf-8")
    made = imported(tmp_path / "*.ts", tmp_path / "out", window="auto")
    federation = read_federation(tmp_path / "out")
    assert federation.card.classes == ("sit", "walk") and list(federation.clients) == ["a", "b"]
    data = federation.clients["a"]
    assert data.x[:, 0].tolist() == [[1, 2, 3, 4], [2, 2, 3, 4]] and data.y.tolist() == [1, 0]
    assert made.dropped.counts == {Why.MISSING: {"a": 1, "b": 1}}
    assert "a.ts, row 3, column 'dimension1'" in made.dropped.first[Why.MISSING]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2,2,3,4:", "2,2,3:", "line 11: got 2 dimensions of 3, 4 values, expected 2 of 4"),
        ("2,2,3,4:", "2,2,x,4:", "line 11: got could not convert"),
        ("@timeStamps false", "@timeStamps true", "line 3: got @timeStamps true, expected series"),
        ("@classLabel true walk sit", "@classLabel false", "expected @classLabel true"),
        ("@classLabel true walk sit", "@classLabel", "expected @classLabel true"),
        ("@classLabel true walk sit", "@", "expected @classLabel true"),
    ],
)
def test_ts_files_that_differ_are_refused_by_line(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    for person in "ab":
        (tmp_path / f"{person}.ts").write_text(TS.replace(old, new), "utf-8")
    with pytest.raises(DataError) as error:
        imported(tmp_path / "*.ts", tmp_path / "out", window="auto")
    assert words in str(error.value)


def test_arrays_of_windows_and_of_signals(tmp_path: Path) -> None:
    x = np.arange(6 * 2 * 8).reshape(6, 2, 8) / 10
    subject, y = np.array(["1", "1", "1", "02", "02", "02"]), np.array([0, 1, 1, 0, 0, 1])
    np.savez(tmp_path / "w.npz", x=x, y=y, subject=subject)
    made = imported(tmp_path / "w.npz", tmp_path / "windows", window="auto", rate=4.0)
    assert any("Whether samples overlap is not known" in note for note in made.notes)
    federation = read_federation(tmp_path / "windows")
    assert federation.card.overlap is None
    assert list(federation.clients) == ["02", "1"] and federation.card.sampling_rate_hz == 4
    np.testing.assert_allclose(federation.clients["02"].x, x[3:])
    signal = np.sin(np.arange(80))[:, None]
    np.savez(
        tmp_path / "s.npz",
        data=signal,
        label=np.repeat(["a", "b"], 40),
        user=np.tile(np.repeat([1, 2], 20), 2),
    )
    made = imported(tmp_path / "s.npz", tmp_path / "signals", rate=10.0)
    assert made.samples == 4 and made.card.window_s == 2
    assert not any("overlap" in note for note in made.notes)
    with pytest.raises(DataError, match=r"y: got shape \(5,\), expected \(6,\)"):
        np.savez(tmp_path / "w.npz", x=x, y=y[:5], subject=subject)
        imported(tmp_path / "w.npz", tmp_path / "none", window="auto")
    np.save(tmp_path / "one.npy", x)
    with pytest.raises(DataError, match="got one array of float64"):
        imported(tmp_path / "one.npy", tmp_path / "none")


def test_a_structured_array_is_a_table(tmp_path: Path) -> None:
    rows = [(1, "a", 0.5, 2.0), (1, "b", 1.5, 2.0), (2, "a", 0.1, 3.0), (2, "b", 0.2, 4.0)]
    kinds = [("user", "i8"), ("label", "U4"), ("ax", "f8"), ("ay", "f4")]
    np.save(tmp_path / "t.npy", np.array(rows, kinds))
    made = imported(tmp_path / "t.npy", tmp_path / "out", window="none")
    assert made.card.features == ("ax", "ay") and made.samples == 4


def test_times_of_windows_are_seconds_numbers_or_dates(tmp_path: Path) -> None:
    x, y = np.arange(128, dtype=np.float32).reshape(8, 1, 16), np.arange(8) % 2
    seconds = np.arange(8) * 2.0
    days = np.datetime64("2024-01-01") + np.arange(8)
    for name, t in (("numbers", seconds), ("days", days), ("text", days.astype(str))):
        (tmp_path / name).mkdir()
        for person in "ab":
            np.savez(tmp_path / name / f"{person}.npz", x=x, y=y, t=t)
        imported(tmp_path / name, tmp_path / f"{name}-out", window="auto")
        found = read_federation(tmp_path / f"{name}-out").clients["a"].t
        assert found is not None
        expected = seconds if name == "numbers" else 1704067200 + np.arange(8) * 86_400.0
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("timed", ["a", "b"])
def test_time_of_some_files_alone_is_refused(tmp_path: Path, timed: str) -> None:
    x, y = np.zeros((8, 1, 16), np.float32), np.arange(8) % 2
    for person in "ab":
        time = "t" if person == timed else "more"
        np.savez(tmp_path / f"{person}.npz", **{"x": x, "y": y, time: np.arange(8) * 2.0})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"b.npz: got (no time|time in numbers), expected"):
        imported(tmp_path / "*.npz", tmp_path / "out", window="auto")


def test_a_file_that_changes_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where half of it has a fault of its own."""
    for person in "ab":
        (tmp_path / f"{person}.ts").write_text(TS, "utf-8")
    read = array_files.read_ts

    def slow(path: Path) -> object:
        (tmp_path / "b.ts").write_text("@problemName", "utf-8")
        return read(path)

    monkeypatch.setattr(array_files, "read_ts", slow)
    with pytest.raises(DataError, match=r"b\.ts: changed while it was read"):
        imported(tmp_path / "*.ts", tmp_path / "out", window="auto")
    assert not (tmp_path / "out").exists()


def test_a_file_without_rows_is_told(tmp_path: Path) -> None:
    x, y = np.zeros((8, 1, 16), np.float32), np.arange(8) % 2
    for person, n in (("a", 8), ("b", 0)):
        np.savez(tmp_path / f"{person}.npz", x=x[:n], y=y[:n])
    made = imported(tmp_path / "*.npz", tmp_path / "out", window="auto")
    assert f"Left out, as there is no row in it: {tmp_path / 'b.npz'}." in made.notes
    assert not any("time-unit" in note for note in made.notes)
