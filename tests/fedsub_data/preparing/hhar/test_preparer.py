"""HHAR: the official file becomes windows by time, whatever the order of its phones."""

import io
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.cover import turns
from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing import tables
from fedsub_data.preparing.hhar import preparer as hhar
from fedsub_data.preparing.hhar.preparer import prepare
from fedsub_data.preparing.options import HHAROptions
from fedsub_data.preparing.preparation import Prepared

HEADER = "Index,Arrival_Time,Creation_Time,x,y,z,User,Model,Device,gt\n"
START = 1420000000000


def row(ms: float, gt: str, user: str = "a", device: str = "nexus4_1", x: float = 0.0) -> str:
    ms = round(ms)
    xyz = f"{x},0.75,9.5"
    model = device.split("_")[0]
    return f"7,{START + ms},{(START + ms) * 10**6},{xyz},{user},{model},{device},{gt}\n"


def phone(seconds: float, gt: str, hz: int = 100, start: float = 0.0, **who: str) -> list[str]:
    """Return rows at a steady rate; x is the time since START in seconds."""
    times = start + np.arange(round(seconds * hz)) / hz
    return [row(1000 * s, gt, x=round(s, 4), **who) for s in times.tolist()]


def write(folder: Path, rows: list[str], header: str = HEADER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "Phones_accelerometer.csv"
    path.write_text(header + "".join(rows))
    return path


def prepared(source: Path, options: HHAROptions | None = None) -> Prepared:
    return prepare(source, options or HHAROptions(), 1, lambda done, total: None)


def refusal(source: Path) -> str:
    with pytest.raises(DataError) as caught:
        prepared(source)
    return str(caught.value)


def test_means_classes_and_times(tmp_path: Path) -> None:
    rows = phone(2, "stand") + phone(1, "null", start=2) + phone(1, "bike", start=3)
    write(tmp_path, rows)
    result = prepared(tmp_path)
    card, data = result.federation.card, result.federation.clients["a"]
    assert card.classes == ("stand", "sit", "walk", "stairsup", "stairsdown", "bike")
    assert card.features == ("x mean", "y mean", "z mean")
    assert (card.window_s, card.overlap, card.sampling_rate_hz) == (1.0, 0.0, None)
    np.testing.assert_array_equal(data.t, START / 1000 + np.array([0, 1, 3]))
    np.testing.assert_array_equal(data.y, [0, 0, 5])
    np.testing.assert_allclose(data.x, [[0.495, 0.75, 9.5], [1.495, 0.75, 9.5], [3.495, 0.75, 9.5]])
    assert dict(result.counts) == {
        "rows read": 400,
        "rows dropped: no activity": 100,
        "windows kept": 3,
        "windows dropped: too few rows": 0,
        "windows dropped: a gap": 0,
        "windows dropped: two activities": 0,
        "people": 1,
    }


def test_statistics_are_those_of_numpy(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=120).round(6)
    write(tmp_path, [row(i * 8, "sit", x=v) for i, v in enumerate(values.tolist())])
    x = prepared(tmp_path, HHAROptions(features="stats")).federation.clients["a"].x
    assert x.shape == (1, 12)
    expected = [values.mean(), values.std(), values.min(), values.max()]
    np.testing.assert_allclose(x[0, ::3], expected, rtol=1e-5)


@pytest.mark.parametrize("hz", [50, 97, 200])
def test_raw_windows_are_resampled_to_50_hz(tmp_path: Path, hz: int) -> None:
    write(tmp_path, phone(3, "walk", hz=hz, start=10))
    federation = prepared(tmp_path, HHAROptions(features="raw")).federation
    data = federation.clients["a"]
    assert data.x.shape == (3, 3, 50) and data.t is not None
    assert federation.card.sampling_rate_hz == 50.0
    # x is the time, so resampling gives the grid; arrival times are whole milliseconds.
    inner = data.x[:, 0, 1:-1].astype(float) - data.t[:, None] + START / 1000
    np.testing.assert_allclose(inner, np.tile(np.arange(1, 49) / 50, (3, 1)), atol=1.1e-3)


def test_windows_with_gaps_two_activities_or_few_rows_are_dropped(tmp_path: Path) -> None:
    rows = [
        *phone(0.4, "sit", start=0),
        *phone(0.5, "sit", start=1),
        *phone(0.49, "sit", start=2),
        *phone(0.5, "sit", start=3.25),
        *phone(0.7, "sit", start=4),
        *phone(0.3, "walk", start=4.7),
        *phone(1, "sit", start=5, hz=24),
        *phone(1, "sit", start=6, hz=25),
    ]
    write(tmp_path, rows)
    result = prepared(tmp_path)
    times = result.federation.clients["a"].t
    assert times is not None
    np.testing.assert_array_equal(times - START / 1000, [3, 6])
    assert result.counts["windows dropped: a gap"] == 3
    assert result.counts["windows dropped: two activities"] == 1
    assert result.counts["windows dropped: too few rows"] == 1
    wider = prepared(tmp_path, HHAROptions(gap_s=0.65))
    assert wider.counts["windows kept"] == 5


def test_time_that_jumps_back_starts_other_windows(tmp_path: Path) -> None:
    write(tmp_path, phone(2, "sit", start=5) + phone(2, "walk"))
    data = prepared(tmp_path).federation.clients["a"]
    assert data.t is not None
    np.testing.assert_array_equal(data.t - START / 1000, [0, 1, 5, 6])
    np.testing.assert_array_equal(data.y, [2, 2, 1, 1])


def people() -> list[list[str]]:
    return [
        phone(3, "sit", user="a", device="nexus4_1"),
        phone(3, "walk", user="a", device="s3mini_2", start=0.3, hz=90),
        phone(2, "bike", user="c", device="samsungold_1", hz=50),
        phone(2, "null", user="c", device="s3_1"),
    ]


def test_a_client_is_a_person_or_a_phone(tmp_path: Path) -> None:
    write(tmp_path, list(chain(*people())))
    person = prepared(tmp_path)
    assert {c: len(d.y) for c, d in person.federation.clients.items()} == {"a": 6, "c": 2}
    times = person.federation.clients["a"].t
    assert times is not None
    np.testing.assert_array_equal(times - START / 1000, [0, 0, 1, 1, 2, 2])
    device = prepared(tmp_path, HHAROptions(clients="device"))
    assert {c: len(d.y) for c, d in device.federation.clients.items()} == {
        "a-nexus4_1": 3,
        "a-s3mini_2": 3,
        "c-samsungold_1": 2,
    }
    assert device.counts["phones dropped: no window"] == 1
    assert device.counts["people"] == 2
    write_federation(tmp_path / "out", device.federation)
    assert list(read_federation(tmp_path / "out").clients) == list(device.federation.clients)


@pytest.mark.parametrize(("features", "block_bytes"), turns(["mean", "raw"], [500, 4000]))
def test_interleaved_rows_and_small_blocks_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, features: str, block_bytes: int
) -> None:
    options = HHAROptions(features=features, clients="device")
    write(tmp_path / "one", list(chain(*people())))
    rng = np.random.default_rng(2)
    queues = people()
    mixed = []
    while queues := [queue for queue in queues if queue]:
        mixed.append(queues[rng.integers(len(queues))].pop(0))
    write(tmp_path / "two", mixed)
    whole = prepared(tmp_path / "one", options)
    monkeypatch.setattr(
        hhar, "read_table", lambda f, p, t: tables.read_table(f, p, t, block_bytes=block_bytes)
    )
    for folder in ("one", "two"):
        other = prepared(tmp_path / folder, options)
        assert other.counts == whole.counts
        assert list(other.federation.clients) == list(whole.federation.clients)
        for client, data in whole.federation.clients.items():
            np.testing.assert_allclose(other.federation.clients[client].x, data.x, rtol=1e-6)
            np.testing.assert_array_equal(other.federation.clients[client].t, data.t)


def test_the_archive_and_the_one_around_it_count_bytes(tmp_path: Path) -> None:
    text = HEADER + "".join(phone(2, "walk"))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Activity recognition exp/Phones_accelerometer.csv", text)
        archive.writestr("Activity recognition exp/Phones_gyroscope.csv", "other")
        archive.writestr("__MACOSX/Activity recognition exp/._Phones_accelerometer.csv", "junk")
    path = tmp_path / "Activity recognition exp.zip"
    path.write_bytes(inner.getvalue())
    seen = []
    prepare(path, HHAROptions(), 1, lambda *done: seen.append(done))
    assert seen[-1] == (len(text), len(text))
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("Activity recognition exp.zip", inner.getvalue())
    assert prepared(tmp_path / "outer.zip").counts["windows kept"] == 2


def test_bad_files_are_refused_with_their_line(tmp_path: Path) -> None:
    rows = phone(1, "sit")
    path = write(tmp_path, rows, HEADER.replace("gt", "label"))
    assert f"{path}, line 1: got 'Index,Arrival_Time" in refusal(tmp_path)
    for wrong, words in (
        (row(90, "swim"), "'swim' as gt, expected one of stand, sit"),
        (row(90, "sit", user="j"), "'j' as User, expected one of a, b"),
        (row(90, "sit", device="s4_1"), "'s4' as Model"),
        (row(90, "sit", device="s3_3"), "'s3_3' as Device"),
        (row(90, "sit").replace("9.5", "nan"), "'nan' as z, expected a finite number"),
        (row(90, "sit").replace("9.5,", ""), "9 columns, expected 10 columns"),
    ):
        write(tmp_path, [*rows[:9], wrong, *rows[10:]])
        assert f"{path}, line 11: got {words}" in refusal(tmp_path)
    write(tmp_path, [*rows, row(1000, "sit")[:60]])
    assert "line 102: got" in refusal(tmp_path)
    assert "the file is truncated" in refusal(tmp_path)
    path.write_bytes((HEADER + "".join(rows)).encode() + b"7,\xfe\n")
    assert f"{path}, line 102: got byte 0xfe" in refusal(tmp_path)


def test_time_that_stands_still_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hhar, "_MOST_ROWS", 50)
    write(tmp_path, [row(5, "sit")] * 60)
    assert "line 2: got over 50 rows of a's nexus4_1 in one window" in refusal(tmp_path)


def test_a_person_without_a_window_and_wrong_archives(tmp_path: Path) -> None:
    path = write(tmp_path / "a", phone(2, "sit") + phone(3, "null", user="b"))
    assert f"{path}: got no window for person 'b'" in refusal(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "Still exp.zip", "w") as archive:
        archive.writestr("Still exp/a.csv", "")
    message = refusal(tmp_path / "Still exp.zip")
    assert "got no such file in it, expected 'Activity recognition exp.zip'" in message
    write(tmp_path / "b", [])
    assert "got no row, expected the recordings of nine people" in refusal(tmp_path / "b")
