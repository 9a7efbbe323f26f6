"""PAMAP2: recordings in the official format become windows, and bad ones are refused."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.options import PAMAP2Options
from fedsub_data.preparing.pamap2 import CHANNELS, Held, interpolate_gaps, prepare
from fedsub_data.preparing.preparation import Prepared

#: 0.2 s: 20 rows, 10 apart.
SHORT = PAMAP2Options(window_s=0.2)
UNIT = 17
#: Where acceleration, gyroscope and magnetometer lie in a unit's 17 columns.
USED = [1, 2, 3, 7, 8, 9, 10, 11, 12]


def units(i: int, lost: tuple[int, ...] = ()) -> str:
    """Return row i's 51 columns: column c of unit u is i + 1000 * u + 100 * c."""
    fields = []
    for unit in range(3):
        values = [f"{i + 1000 * unit + 100 * column}" for column in range(UNIT)]
        fields += ["NaN"] * UNIT if unit in lost else values
    return " ".join(fields)


def row(i: int, activity: int, lost: tuple[int, ...] = (), heart: str | None = None) -> str:
    heart = ("100" if i % 11 == 0 else "NaN") if heart is None else heart
    return f"{8.38 + i / 100:.2f} {activity} {heart} {units(i, lost)}\n"


def recording(*activities: tuple[int, int]) -> list[str]:
    each = [activity for activity, rows in activities for _ in range(rows)]
    return [row(i, activity) for i, activity in enumerate(each)]


def write(folder: Path, rows: list[str], person: int = 101) -> Path:
    path = folder / "Protocol" / f"subject{person}.dat"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(rows))
    return path


def prepared(source: Path, options: PAMAP2Options = SHORT, workers: int = 1) -> Prepared:
    return prepare(source, options, workers, lambda done, total: None)


def refusal(source: Path, options: PAMAP2Options = SHORT) -> str:
    with pytest.raises(DataError) as caught:
        prepared(source, options)
    return str(caught.value)


def test_raw_windows_channels_and_classes(tmp_path: Path) -> None:
    write(tmp_path, recording((0, 15), (1, 45), (0, 10), (24, 20)))
    result = prepared(tmp_path)
    card, data = result.federation.card, result.federation.clients["101"]
    assert card.classes[0] == "lying"
    assert card.classes[11] == "rope jumping"
    assert len(card.classes) == 12
    assert card.features[:4] == ("hand acc x", "hand acc y", "hand acc z", "hand gyro x")
    assert card.features[26] == "ankle mag z"
    assert (card.sampling_rate_hz, card.window_s, card.overlap) == (100.0, 0.2, 0.5)
    assert data.x.shape == (4, 27, 20)
    np.testing.assert_array_equal(data.y, [0, 0, 0, 11])
    assert data.t is not None and data.t == pytest.approx([8.53, 8.63, 8.73, 9.08])
    first = [15 + 1000 * unit + 100 * column for unit in range(3) for column in USED]
    np.testing.assert_array_equal(data.x[0, :, 0], first)
    np.testing.assert_array_equal(data.x[0, 0], 15 + 100 + np.arange(20))
    assert dict(result.counts) == {
        "rows read": 90,
        "rows repaired: lost packets": 0,
        "rows dropped: transient activity": 25,
        "windows kept": 4,
        "windows dropped: cut by another activity": 1,
        "people": 1,
    }


def test_default_windows_have_512_rows(tmp_path: Path) -> None:
    write(tmp_path, recording((4, 800)))
    data = prepared(tmp_path, PAMAP2Options()).federation.clients["101"]
    assert data.x.shape == (2, 27, 512)
    assert data.t is not None and data.t == pytest.approx([8.38, 8.38 + 2.56])


def test_statistics(tmp_path: Path) -> None:
    write(tmp_path, recording((17, 20)))
    federation = prepared(tmp_path, PAMAP2Options(features="stats", window_s=0.2)).federation
    x = federation.clients["101"].x
    assert x.shape == (1, 108)
    assert federation.card.features[27] == "hand acc x std"
    assert federation.card.sampling_rate_hz is None
    np.testing.assert_allclose(x[0, :: len(CHANNELS)], [109.5, np.arange(20).std(), 100, 119])


def test_lost_packets_are_repaired_up_to_the_bound(tmp_path: Path) -> None:
    rows = recording((6, 100))
    for i in [*range(5, 15), *range(41, 52), 99]:
        rows[i] = row(i, 6, lost=(1,))
    write(tmp_path, rows)
    result = prepared(tmp_path)
    data = result.federation.clients["101"]
    # 10 rows are repaired, 11 are not, nor is the last, which has nothing behind it.
    assert result.counts["rows repaired: lost packets"] == 10
    assert result.counts["windows dropped: lost packets"] == 4
    assert data.t is not None
    np.testing.assert_allclose(data.t - 8.38, [0, 0.1, 0.2, 0.6, 0.7], atol=1e-9)
    np.testing.assert_allclose(data.x[0, 9], 1100 + np.arange(20), rtol=1e-6)
    strict = prepared(tmp_path, PAMAP2Options(window_s=0.2, repair_s=0.0))
    assert strict.counts["rows repaired: lost packets"] == 0
    assert strict.counts["windows kept"] == 3


def test_a_pause_cuts(tmp_path: Path) -> None:
    rows = recording((6, 60))
    write(tmp_path, rows[:25] + rows[27:])
    result = prepared(tmp_path)
    times = result.federation.clients["101"].t
    assert times is not None
    np.testing.assert_allclose(times - 8.38, [0, 0.27, 0.37])
    assert result.counts["windows dropped: cut by a pause"] == 1
    assert result.counts["windows dropped: cut by the end"] == 1


def test_the_heart_rate_is_carried_forward(tmp_path: Path) -> None:
    rows = [row(i, 3, heart="80" if i == 15 else "NaN") for i in range(300)]
    write(tmp_path, rows)
    result = prepared(tmp_path, PAMAP2Options(window_s=0.2, overlap=0.0, heart_rate=True))
    data = result.federation.clients["101"]
    assert result.federation.card.features[27] == "heart rate"
    assert result.federation.card.units.endswith("heart rate bpm")
    # Known from row 15 to row 215: windows 1 to 9 of the 15.
    assert data.t is not None
    np.testing.assert_allclose(data.t - 8.38, np.arange(1, 10) * 0.2, atol=1e-9)
    assert data.x.shape == (9, 28, 20)
    np.testing.assert_array_equal(data.x[:, 27], 80)
    assert result.counts["windows dropped: no heart rate"] == 6


def test_blocks_do_not_change_the_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = recording((0, 30), (1, 300), (0, 10), (2, 200), (3, 100))
    for i in [*range(50, 55), *range(120, 150), 331]:
        rows[i] = row(i, 1 if i < 330 else 0, lost=(0, 2))
    write(tmp_path, rows[:400] + rows[420:])
    options = PAMAP2Options(window_s=0.2, heart_rate=True)
    whole = prepared(tmp_path, options)
    from fedsub_data.preparing import pamap2, tables

    monkeypatch.setattr(
        pamap2, "read_table", lambda f, p, t: tables.read_table(f, p, t, block_bytes=2000)
    )
    blocks = prepared(tmp_path, options)
    assert blocks.counts == whole.counts
    assert whole.counts["rows repaired: lost packets"] == 5
    one, other = whole.federation.clients["101"], blocks.federation.clients["101"]
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.t, other.t)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_archive_inside_an_archive(tmp_path: Path, workers: int) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        for person in (109, 101):
            text = "".join(recording((24, 40)))
            archive.writestr(f"PAMAP2_Dataset/Protocol/subject{person}.dat", text)
        archive.writestr("PAMAP2_Dataset/Optional/subject101.dat", "other activities")
    with zipfile.ZipFile(tmp_path / "pamap2.zip", "w") as archive:
        archive.writestr("PAMAP2_Dataset.zip", inner.getvalue())
        archive.writestr("readme.pdf", b"")
    (tmp_path / "PAMAP2_Dataset.zip").write_bytes(inner.getvalue())
    nested = prepared(tmp_path / "pamap2.zip", workers=workers)
    plain = prepared(tmp_path / "PAMAP2_Dataset.zip")
    assert list(nested.federation.clients) == ["101", "109"]
    assert nested.counts == plain.counts
    assert nested.counts["windows kept"] == 6
    write_federation(tmp_path / "out", nested.federation)
    assert read_federation(tmp_path / "out").clients["109"].x.shape == (3, 27, 20)


def test_bad_files_are_refused_with_their_line(tmp_path: Path) -> None:
    rows = recording((1, 40))
    path = write(tmp_path, [*rows[:9], row(9, 9), *rows[10:]])
    assert f"{path}, line 10: got '9' as activityID, expected one of 0, 1, 2" in refusal(tmp_path)
    write(tmp_path, [*rows[:9], rows[9].replace(" 109 ", " fast "), *rows[10:]])
    assert f"{path}, line 10: got 'fast' as hand acc x" in refusal(tmp_path)
    write(tmp_path, [*rows[:9], rows[9].replace(" 109 ", " "), *rows[10:]])
    assert f"{path}, line 10: got 53 columns, expected 54 columns" in refusal(tmp_path)
    write(tmp_path, [*rows[:9], rows[9].replace(" ", ","), *rows[10:]])
    assert f"{path}, line 10: got 1 columns" in refusal(tmp_path)
    write(tmp_path, [*rows, row(40, 1)[:90]])
    assert "line 41: got" in refusal(tmp_path)
    assert "the file is truncated" in refusal(tmp_path)
    write(tmp_path, [*rows, rows[3]])
    assert f"{path}, line 41: got 8.41 s after 8.77 s" in refusal(tmp_path)
    path.write_bytes("".join(rows).encode() + b"\xff" + row(40, 1).encode())
    assert f"{path}, line 41: got byte 0xff" in refusal(tmp_path)
    write(tmp_path, [])
    assert f"{path}: got an empty file" in refusal(tmp_path)


def test_a_person_without_a_window_and_wrong_archives(tmp_path: Path) -> None:
    path = write(tmp_path / "a", recording((0, 90), (1, 19)))
    assert f"{path}: got no window for 101 from 109 rows" in refusal(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("Optional/subject101.dat", "")
    assert "got no such file in it, expected PAMAP2_Dataset.zip" in refusal(tmp_path / "other.zip")


N = np.nan


def test_short_gaps_inside_are_filled_linearly_and_others_stay() -> None:
    signals = np.array([N, 0.0, N, N, 3.0, N, N, N, 7.0, 8.0, N])[:, None]
    filled = interpolate_gaps(signals, 2)
    np.testing.assert_array_equal(signals[:, 0], [N, 0, 1, 2, 3, N, N, N, 7, 8, N])
    np.testing.assert_array_equal(np.flatnonzero(filled), [2, 3])


def test_channels_are_filled_apart_and_rows_counted_once() -> None:
    signals = np.array([[0.0, 5.0], [N, N], [2.0, N], [3.0, 8.0]])
    filled = interpolate_gaps(signals, 1)
    np.testing.assert_array_equal(signals, [[0, 5], [1, N], [2, N], [3, 8]])
    np.testing.assert_array_equal(filled, [False, True, False, False])
    whole = np.full((3, 1), N)
    assert not interpolate_gaps(whole, 9).any()


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 6])
def test_held_values_go_on_over_blocks_until_they_are_too_old(cut: int) -> None:
    values = np.array([N, 60.0, N, N, N, 70.0, N])
    seconds = np.array([0.0, 1, 2, 3, 4, 5, 6])
    held = Held(2.0)
    first = held.carry(values[:cut], seconds[:cut])
    carried = [first, held.carry(values[cut:], seconds[cut:])]
    np.testing.assert_array_equal(np.concatenate(carried), [N, 60, 60, 60, N, 70, 70])
