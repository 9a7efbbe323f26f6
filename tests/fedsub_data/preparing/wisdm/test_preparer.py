"""WISDM's raw rows as people would have them: the archive, the folder, the file."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.data.splits import split
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.preparing.options import WISDMOptions
from fedsub_data.preparing.preparation import Prepared
from fedsub_data.preparing.wisdm import preparer as wisdm

ACTIVITIES = ("Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing")
STEP = 50_000_000


def record(user: int, activity: str, place: int, start: int = 10**12) -> str:
    """Return the sample `place` of a recording: x counts samples, y is the user, z a sine."""
    stamp = start + place * STEP
    return f"{user},{activity},{stamp},{place / 8},{user / 4},{np.sin(place):.7f};"


def raw_text(rows: int = 45) -> str:
    """Return 36 people with `rows` of every activity, in the official form."""
    lines = [
        record(user, activity, place, start=10**12 * (1 + label))
        for user in range(1, 37)
        for label, activity in enumerate(ACTIVITIES)
        for place in range(rows)
    ]
    return "\n".join(lines) + "\n"


def prepared(source: Path, **options: Any) -> Prepared:
    return wisdm.prepare(source, WISDMOptions(**options), 1, lambda done, total: None)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "WISDM_ar_v1.1_raw.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def archived(folder: Path, text: str) -> Path:
    path = folder / "WISDM_ar_latest.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("readme.txt", b"read me"), ("WISDM_ar_v1.1_raw.txt", text.encode())):
            member = tarfile.TarInfo(f"WISDM_ar_v1.1/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_one_second_means_of_every_person_and_activity(tmp_path: Path) -> None:
    result = prepared(written(tmp_path, raw_text()))
    federation = result.federation
    assert list(federation.clients) == [f"{user:02d}" for user in range(1, 37)]
    mine = federation.clients["07"]
    assert mine.x.shape == (12, 3) and mine.x.dtype == np.float32
    assert mine.y.tolist() == [label for label in range(6) for _ in range(2)]
    # 20 rows to a window: places 0..19 and 20..39; 5 of 45 are left over.
    np.testing.assert_allclose(mine.x[:2, 0], [9.5 / 8, 29.5 / 8])
    np.testing.assert_allclose(mine.x[:, 1], 7 / 4)
    np.testing.assert_allclose(mine.x[0, 2], np.sin(np.arange(20)).mean(), atol=1e-6)
    # A stretch's windows touch; between stretches there is a window's length.
    assert mine.t is not None
    assert mine.t[:6].tolist() == [0, 1, 3, 4, 6, 7]
    assert federation.card.features == ("acc_x_mean", "acc_y_mean", "acc_z_mean")
    assert federation.card.units == "m/s^2" and federation.card.time_ordered
    assert (federation.card.window_s, federation.card.overlap) == (1.0, 0.0)
    assert federation.card.sampling_rate_hz is None
    assert result.counts == {
        "rows read": 36 * 6 * 45,
        "rows dropped: same as the row before": 0,
        "rows dropped: repeated from earlier in the file": 0,
        "stretches without a pause": 216,
        "rows dropped: left over, shorter than a window": 36 * 6 * 5,
        "windows kept": 432,
        "people": 36,
    }


def test_raw_windows_and_statistics_agree(tmp_path: Path) -> None:
    source = written(tmp_path, raw_text())
    raw = prepared(source, features="raw", window_s=2.0, overlap=0.75).federation
    stats = prepared(source, features="stats", window_s=2.0, overlap=0.75).federation
    x = raw.clients["36"].x
    assert x.shape == (6, 3, 40)  # 45 rows hold one of 40, not a second one 10 rows later
    np.testing.assert_array_equal(x[0, 0], np.arange(40) / 8)
    assert raw.card.sampling_rate_hz == 20.0 and raw.card.features == ("acc_x", "acc_y", "acc_z")
    assert stats.card.features[:5] == (
        "acc_x_mean", "acc_x_std", "acc_x_min", "acc_x_max", "acc_y_mean",
    )  # fmt: skip
    expected = np.stack([x.mean(2), x.std(2), x.min(2), x.max(2)], axis=2).reshape(6, 12)
    np.testing.assert_allclose(stats.clients["36"].x, expected, rtol=1e-5, atol=1e-6)


def test_overlapping_windows_keep_apart_in_a_blocked_split(tmp_path: Path) -> None:
    federation = prepared(written(tmp_path, raw_text(200)), features="raw", overlap=0.5).federation
    mine = federation.clients["01"]
    train, test = split(mine, federation.card, "blocked", 0.3, 0)
    # x holds the place in the recording, so shared samples of one activity can be seen.
    for label in range(6):
        places = [set(mine.x[part][mine.y[part] == label, 0].ravel()) for part in (train, test)]
        assert places[0] and places[1] and not places[0] & places[1]
    assert len(train) + len(test) == len(mine.y) - 6  # one window at each class's boundary


def test_windows_break_at_pauses_and_clocks_that_go_back(tmp_path: Path) -> None:
    jumps = [10 * STEP, 11 * STEP, -STEP]  # after rows 29, 59 and 89; the first is no pause
    stamps = np.cumsum([10**12, *(jumps[i // 30 - 1] if i % 30 == 0 else STEP
                                  for i in range(1, 120))])  # fmt: skip
    own = "".join(f"1,Walking,{t},{i},0.5,0.5;\n" for i, t in enumerate(stamps))
    others = raw_text().split("\n2,Walking", 1)
    result = prepared(written(tmp_path, own + "2,Walking" + others[1]), features="raw")
    mine = result.federation.clients["01"]
    assert mine.x[:, 0, 0].tolist() == [0, 20, 40, 60, 90]
    assert mine.t is not None and mine.t.tolist() == [0, 1, 2, 4, 6]


def test_archive_folder_and_file_give_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "WISDM_ar_v1.1"
    folder.mkdir()
    text = raw_text(20)
    sources = [archived(tmp_path, text), written(folder, text), folder, tmp_path]
    results = [prepared(source) for source in sources]
    for other in results[1:]:
        assert other.counts == results[0].counts
        for name, client in other.federation.clients.items():
            np.testing.assert_array_equal(client.x, results[0].federation.clients[name].x)


def test_what_is_prepared_can_be_written_and_read(tmp_path: Path) -> None:
    federation = prepared(written(tmp_path, raw_text(20)), features="raw").federation
    write_federation(tmp_path / "out", federation)
    again = read_federation(tmp_path / "out")
    assert again.card == federation.card
    np.testing.assert_array_equal(again.clients["12"].x, federation.clients["12"].x)


def test_a_person_without_a_window_is_named(tmp_path: Path) -> None:
    text = "".join(line + "\n" for line in raw_text(20).splitlines() if not line.startswith("9,"))
    with refused(DataError, "WISDM_ar_v1.1_raw.txt", got=["user 9", "0 rows"]):
        prepared(written(tmp_path, text))
    with pytest.raises(DataError, match=r"got no window of user 1 out of 114 rows"):
        prepared(written(tmp_path, raw_text(19)))


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = archived(tmp_path, raw_text())
    content = path.read_bytes()
    for share in (0.1, 0.5, 0.95):
        path.write_bytes(content[: int(len(content) * share)])
        with refused(DataError, "WISDM_ar_latest.tar.gz", "EOFError"):
            prepared(path)


def test_sources_that_are_something_else_are_refused(tmp_path: Path) -> None:
    with refused(DataError, "nothing", got="no such file", expected="WISDM_ar_latest.tar.gz"):
        prepared(tmp_path / "nothing")
    with refused(DataError, "folder", expected="WISDM_ar_latest"):
        prepared(tmp_path)
    other = tmp_path / "WISDM_ar_v1.1_transformed.arff"
    other.touch()
    with pytest.raises(DataError, match=r"ends in '\.arff', expected .*_raw\.txt"):
        prepared(other)
    archive = tmp_path / "other.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(other, "WISDM_ar_v1.1/readme.txt")
    with pytest.raises(DataError, match=r"an archive without WISDM_ar_v1.1_raw.txt"):
        prepared(archive)
    archive.write_bytes(b"no tar")
    with pytest.raises(DataError, match=r"other\.tar\.gz: cannot be read"):
        prepared(archive)


def test_options_that_the_features_do_not_have_are_refused(tmp_path: Path) -> None:
    with refused(ConfigError, "window-s", "features = transformed", got="2.0"):
        prepared(tmp_path, features="transformed", window_s=2.0)
    with pytest.raises(ConfigError, match=r"missing: got 'rows', but features = mean"):
        prepared(tmp_path, missing="rows")
