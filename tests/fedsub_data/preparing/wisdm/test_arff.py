"""WISDM's transformed file: the official one, and small ones with faults."""

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.preparing.options import WISDMOptions
from fedsub_data.preparing.preparation import Prepared
from fedsub_data.preparing.wisdm import preparer as wisdm
from fedsub_data.preparing.wisdm.arff import FEATURES, read_windows

CLASSES = ("Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing")


def values(seed: int) -> list[str]:
    """Return 43 values of a window: XAVG 0, ZSTANDDEV as XSTANDDEV, as in the official file."""
    numbers = np.random.default_rng(seed).uniform(0, 1, 43).round(2)
    row = dict(zip(FEATURES, map(str, numbers), strict=True))
    row.update(XAVG="0", ZSTANDDEV=row["XSTANDDEV"])
    return list(row.values())


def arff(rows: list[str]) -> str:
    names = [f'@attribute "{name}" numeric\n' for name in FEATURES]
    header = ['@attribute "UNIQUE_ID" numeric\n', '@attribute "user" {"33" , "17"} \n', *names,
              '@attribute class{ "Walking" , "Jogging" }\n']  # fmt: skip
    return "@relation activity\n\n" + "".join(header) + "\n@data\n" + "".join(rows)


def row(user: int, label: str, features: list[str], unique: int = 1) -> str:
    return ",".join([str(unique), str(user), *features, label]) + "\n"


@pytest.fixture
def rows() -> list[str]:
    """Two windows of each of 36 people."""
    return [
        row(user, CLASSES[(user + i) % 6], values(2 * user + i))
        for user in range(1, 37)
        for i in range(2)
    ]


def prepared(source: Path, **options: Any) -> Prepared:
    chosen = WISDMOptions(features="transformed", **options)
    return wisdm.prepare(source, chosen, 1, lambda done, total: None)


def test_columns_that_tell_nothing_are_dropped(tmp_path: Path, rows: list[str]) -> None:
    features = values(999)
    features[FEATURES.index("YPEAK")] = "?"
    again = row(5, "Walking", features, 7)
    (tmp_path / "x.arff").write_text(
        arff([*rows, row(5, "Walking", features), "\n", "% a\n", again]), newline="\r\n"
    )
    result = prepared(tmp_path / "x.arff")
    assert result.counts == {
        "rows read": 74,
        "rows dropped: repeated from earlier in the file": 1,
        "columns dropped: missing values": 1,
        "columns dropped: constant": 1,
        "columns dropped: same as an earlier one": 1,
        "windows kept": 73,
        "people": 36,
    }
    card = result.federation.card
    gone = {"YPEAK", "XAVG", "ZSTANDDEV"}
    assert card.features == tuple(name for name in FEATURES if name not in gone)
    assert (card.window_s, card.overlap, card.time_ordered) == (10.0, 0.0, False)
    mine = result.federation.clients["05"]
    expected = [float(v) for n, v in zip(FEATURES, features, strict=True) if n not in gone]
    np.testing.assert_array_equal(mine.x[2], np.array(expected, np.float32))
    assert mine.y.tolist() == [5, 0, 0] and mine.t is None


def test_rows_that_miss_a_value_can_be_dropped_instead(tmp_path: Path, rows: list[str]) -> None:
    features = values(999)
    features[FEATURES.index("YPEAK")] = "?"
    (tmp_path / "x.arff").write_text(arff([*rows, row(5, "Walking", features)]))
    result = prepared(tmp_path / "x.arff", missing="rows")
    assert result.counts["rows dropped: missing value"] == 1
    assert result.counts["windows kept"] == 72
    assert len(result.federation.card.features) == 41


REFUSED = [
    (("Walking", "Jumping"), r"line 51: got class 'Jumping', expected one of Walking"),
    (("1,33,", "1,37,"), r"line 51: got user '37'"),
    (("1,33,0.5", "1,33,0.5,0.5"), r"line 51: got 47 values in '1,33,"),
    (("1,33,0.5", "1,33,half"), r"line 51: got X0 'half', expected a number or \?"),
    (("1,33,0.5", "1,33,inf"), r"line 51: got X0 'inf', expected a finite number"),
    (('"X1" numeric', '"X1" string'), r"line 6: got '@attribute \"X1\" string'"),
    (('@attribute "X1" numeric\n', ""), r"line 49: got 45 attributes"),
    (("@data", "@end"), r"line 50: got '@end'"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_refused_with_file_and_line(change: tuple[str, str], message: str) -> None:
    features = values(1)
    features[0] = "0.5"
    text = arff([row(33, "Walking", features)]).replace('"Walking"', '"W"').replace(*change)
    with pytest.raises(DataError, match=r"^x\.arff, " + message):
        read_windows(text.encode().splitlines(keepends=True), "x.arff")


def test_a_header_alone_and_other_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.arff: got no line @data"):
        read_windows([b"@relation a\n"], "x.arff")
    with pytest.raises(DataError, match=r"x\.arff, line 2: got byte 0xff"):
        read_windows([b"@relation a\n", b"\xff\n"], "x.arff")
    (tmp_path / "x.arff").write_text(arff([]))
    with refused(DataError, "x.arff", got=["user 1", "0 rows"]):
        prepared(tmp_path / "x.arff")


def test_a_truncated_xz_is_refused(tmp_path: Path, rows: list[str]) -> None:
    path = tmp_path / "x.arff.xz"
    content = lzma.compress(arff(rows).encode())
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"x\.arff\.xz: cannot be read to its end"):
        prepared(path)


def test_the_official_file(real_data: Path) -> None:
    folder = real_data / "wisdm-official"
    if not (folder / "WISDM_ar_v1.1_transformed.arff.xz").is_file():
        pytest.skip(f"no official file in {folder}")
    result = prepared(folder)
    assert result.counts == {
        "rows read": 5418,
        "rows dropped: repeated from earlier in the file": 61,
        "columns dropped: missing values": 3,
        "columns dropped: constant": 1,
        "columns dropped: same as an earlier one": 1,
        "windows kept": 5357,
        "people": 36,
    }
    gone = {"XPEAK", "YPEAK", "ZPEAK", "XAVG", "ZSTANDDEV"}
    assert set(FEATURES) - set(result.federation.card.features) == gone
    labels = np.concatenate([client.y for client in result.federation.clients.values()])
    # The file's 2081, 1625, 632, 528, 306, 246, less user 19's 29 and 32 that are there twice.
    assert np.bincount(labels).tolist() == [2052, 1593, 632, 528, 306, 246]
    assert len(result.federation.clients["19"].y) == 229 - 61
    np.testing.assert_allclose(result.federation.clients["33"].x[0, [0, 1, 30]], [0.04, 0.09, 8.4])
    rows = prepared(folder, missing="rows")
    assert rows.counts["rows dropped: missing value"] == 474
    assert rows.counts["windows kept"] == 4883 and len(rows.federation.card.features) == 41
