"""DREAMT: nights in the official format become windows, streamed, and bad ones are refused."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.dreamt import prepare
from fedsub_data.preparing.options import DREAMTOptions
from fedsub_data.preparing.preparation import Prepared

HEADER = (
    "TIMESTAMP,BVP,ACC_X,ACC_Y,ACC_Z,TEMP,EDA,HR,IBI,Sleep_Stage,"
    "Obstructive_Apnea,Central_Apnea,Hypopnea,Multiple_Events\n"
)
#: A window of 2 s keeps the files of these tests small: 128 rows, 64 apart.
SHORT = DREAMTOptions(window_s=2.0)


def row(i: int, stage: str, ibi: str = "0.9375", second: float | None = None) -> str:
    second = i / 64 if second is None else second
    event = ",1.0,,," if i % 7 == 0 else ",,,,"
    return f"{second},{i % 100},-20.0,{i},60.0,31.25,0.25,64.5,{ibi},{stage}{event}\n"


def night(stages: str) -> list[str]:
    """Return the rows of a night with a second of each stage, such as "P W W N2"."""
    each = [stage for stage in stages.split() for _ in range(64)]
    return [row(i, stage) for i, stage in enumerate(each)]


def write(folder: Path, person: str, rows: list[str], header: str = HEADER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{person}_whole_df.csv"
    path.write_text(header + "".join(rows))
    return path


def prepared(source: Path, options: DREAMTOptions = SHORT, workers: int = 1) -> Prepared:
    return prepare(source, options, workers, lambda done, total: None)


def refusal(source: Path) -> str:
    with pytest.raises(DataError) as caught:
        prepared(source)
    return str(caught.value)


def test_means_classes_and_times(tmp_path: Path) -> None:
    write(tmp_path / "data_64Hz", "S002", night("P W W W N2 N2 R"))
    result = prepared(tmp_path)
    card, data = result.federation.card, result.federation.clients["S002"]
    assert card.classes == ("Sleep", "Wake")
    assert card.features == tuple(
        f"{s} mean" for s in ("BVP", "IBI", "EDA", "TEMP", "HR", "ACC_X", "ACC_Y", "ACC_Z")
    )
    assert (card.window_s, card.overlap, card.time_ordered) == (2.0, 0.5, True)
    # The first window starts at the first scored row; the fourth is half W, half N2: its first.
    np.testing.assert_array_equal(data.t, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(data.y, [1, 1, 1, 0, 0])
    rows = np.arange(64, 64 + 128)
    expected = [(rows % 100).mean(), 0.9375, 0.25, 31.25, 64.5, -20.0, rows.mean(), 60.0]
    np.testing.assert_allclose(data.x[0], expected, rtol=1e-6)
    assert data.x.dtype == np.float32
    assert dict(result.counts) == {
        "rows read": 448,
        "rows dropped: stage P": 64,
        "rows dropped: stage Missing": 0,
        "windows kept": 5,
        "windows dropped: cut by an unscored row": 0,
        "people": 1,
    }


def test_default_windows_are_the_papers(tmp_path: Path) -> None:
    write(tmp_path, "S002", night("W " * 60 + "N1 " * 30))
    data = prepared(tmp_path, DREAMTOptions()).federation.clients["S002"]
    np.testing.assert_array_equal(data.t, [0, 15, 30, 45, 60])
    np.testing.assert_array_equal(data.y, [1, 1, 1, 1, 0])


def test_the_five_stages_and_the_majority(tmp_path: Path) -> None:
    stages = "W W W N1 N1 N1 N2 N2 N2 N3 N3 N3 R R R"
    write(tmp_path, "S002", night(stages))
    options = DREAMTOptions(window_s=3.0, overlap=0.0, labels="stages")
    result = prepared(tmp_path, options).federation
    assert result.card.classes == ("Wake", "N1", "N2", "N3", "REM")
    np.testing.assert_array_equal(result.clients["S002"].y, [0, 1, 2, 3, 4])
    write(tmp_path, "S002", night("W N1 N1 R R W"))
    np.testing.assert_array_equal(prepared(tmp_path, options).federation.clients["S002"].y, [1, 4])
    sleep = prepared(tmp_path, DREAMTOptions(window_s=3.0, overlap=0.0)).federation.clients["S002"]
    np.testing.assert_array_equal(sleep.y, [0, 0])


def test_unscored_rows_and_pauses_cut_and_are_counted(tmp_path: Path) -> None:
    rows = night("W W W Missing W W W W N1 N1 N1")
    late = [row(i, "W", second=i / 64 + 100) for i in range(704, 704 + 160)]
    write(tmp_path, "S002", [*rows[:480], *rows[481:], *late])
    result = prepared(tmp_path)
    # Row 480 is missing: [256, 480), [481, 704) and [704, 864) are stretches of their own.
    starts = [0, 64, 256, 320, 481, 545, 704 + 6400]
    np.testing.assert_array_equal(result.federation.clients["S002"].t, np.array(starts) / 64)
    assert result.counts["rows dropped: stage Missing"] == 64
    assert result.counts["windows dropped: cut by a pause"] == 2
    assert result.counts["windows dropped: cut by the end"] == 1
    assert result.counts["windows dropped: cut by an unscored row"] == 0
    assert result.counts["windows kept"] == 7


def test_ibi_before_the_first_beats(tmp_path: Path) -> None:
    rows = [row(i, "W", ibi="" if i < 200 else "0.5") for i in range(384)]
    write(tmp_path, "S002", rows)
    result = prepared(tmp_path)
    assert result.counts["windows dropped: no value of IBI"] == 2
    data = result.federation.clients["S002"]
    np.testing.assert_array_equal(data.t, [2, 3, 4])
    np.testing.assert_array_equal(data.x[:, 1], 0.5)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.5, 0.9])
def test_blocks_do_not_change_the_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: float
) -> None:
    rng = np.random.default_rng(0)
    stages = " ".join(rng.choice(["W", "N1", "N2", "P"], 60, p=[0.4, 0.3, 0.27, 0.03]))
    rows = night(stages)
    del rows[1000:1010]
    write(tmp_path, "S002", rows)
    options = DREAMTOptions(window_s=2.0, overlap=overlap)
    whole = prepared(tmp_path, options)
    from fedsub_data.preparing import dreamt, tables

    monkeypatch.setattr(
        dreamt, "read_table", lambda f, p, t: tables.read_table(f, p, t, block_bytes=3000)
    )
    blocks = prepared(tmp_path, options)
    assert blocks.counts == whole.counts
    one, other = whole.federation.clients["S002"], blocks.federation.clients["S002"]
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one.t, other.t)
    assert len(one.y) > 20


def test_people_side_by_side_and_written(tmp_path: Path) -> None:
    for person in ("S010", "S002"):
        write(tmp_path / "root" / "data_64Hz", person, night("W W W N1"))
    (tmp_path / "root" / "participant_info.csv").write_text("SID\n")
    alone, beside = prepared(tmp_path / "root"), prepared(tmp_path / "root", workers=2)
    assert list(alone.federation.clients) == ["S002", "S010"]
    assert alone.counts == beside.counts
    assert alone.counts["people"] == 2
    write_federation(tmp_path / "out", beside.federation)
    back = read_federation(tmp_path / "out")
    np.testing.assert_array_equal(back.clients["S010"].x, alone.federation.clients["S010"].x)


def test_bad_files_are_refused_with_their_line(tmp_path: Path) -> None:
    rows = night("W W W")
    path = write(tmp_path, "S002", rows, HEADER.replace("IBI", "ibi"))
    assert f"{path}, line 1: got 'TIMESTAMP,BVP" in refusal(tmp_path)
    write(tmp_path, "S002", [*rows[:5], row(5, "N4"), *rows[6:]])
    assert f"{path}, line 7: got 'N4' as Sleep_Stage, expected one of W, N1" in refusal(tmp_path)
    write(tmp_path, "S002", [*rows[:5], rows[5].replace("31.25", "warm"), *rows[6:]])
    assert f"{path}, line 7: got 'warm' as TEMP" in refusal(tmp_path)
    write(tmp_path, "S002", [*rows[:5], rows[5].replace(",60.0", ""), *rows[6:]])
    assert f"{path}, line 7: got 13 columns, expected 14 columns" in refusal(tmp_path)
    write(tmp_path, "S002", [*rows, rows[0][:20]])
    assert f"{path}, line 194: got" in refusal(tmp_path)
    assert "the file is truncated" in refusal(tmp_path)
    write(tmp_path, "S002", [*rows[:5], rows[4], *rows[5:]])
    assert f"{path}, line 7: got 0.0625 s after 0.0625 s" in refusal(tmp_path)
    path.write_bytes((HEADER + "".join(rows)).encode() + b"\xff\n")
    assert f"{path}, line 194: got byte 0xff, expected text in UTF-8" in refusal(tmp_path)


def test_a_person_without_a_window_and_wrong_places(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "S003", night("P P W P"))
    assert f"{path}: got no window for S003 from 256 rows" in refusal(tmp_path / "a")
    write(tmp_path / "b", "S003", [])
    assert "no window for S003 from 0 rows" in refusal(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "S002_PSG_df.csv").write_text("")
    assert "got no such file in it, expected DREAMT's folder data_64Hz" in refusal(tmp_path / "c")
    assert "got no such file or folder" in refusal(tmp_path / "d")


def test_memory_does_not_grow_with_the_night(tmp_path: Path) -> None:
    def peak(minutes: int) -> int:
        path = write(tmp_path, "S002", [])
        with open(path, "a") as file:
            for minute in range(minutes):
                file.writelines(row(i, "N2") for i in range(minute * 3840, minute * 3840 + 3840))
        tracemalloc.start()
        assert prepared(path, DREAMTOptions()).counts["rows read"] == minutes * 3840
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(1)
    # 20 minutes are about one block of the reader.
    assert peak(80) < 1.2 * peak(30)
