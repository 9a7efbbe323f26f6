"""UCI-HAR's archives and tables: what is read, and what is refused."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.preparing.uci_har.files import opened, read_table

MEMBER = "train/X_train.txt"
ROWS = "  2.8858451e-001 -2.0294171e-002\n -1.0000000e+000  0.0000000e+000\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "UCI HAR Dataset"
    (folder / "train").mkdir(parents=True)
    (folder / MEMBER).write_text(ROWS * 50)
    return folder


@pytest.fixture
def archive(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "UCI HAR Dataset.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(folder / MEMBER, f"{folder.name}/{MEMBER}")
    return path


def read(source: Path) -> list[list[float]]:
    with opened(source) as folder:
        rows: list[list[float]] = read_table(folder, MEMBER, 2).tolist()
    return rows


def test_numbers_as_matlab_wrote_them(folder: Path, archive: Path) -> None:
    expected = np.array([[0.28858451, -0.020294171], [-1, 0]] * 50, np.float32).tolist()
    assert read(folder) == expected
    assert read(archive) == expected


FAULTS = {
    b"0.1\n": r"line 101: got 1 values, expected 2 on each line",
    b"0.1 0.2 0.3\n": r"line 101: got 3 values, expected 2 on each line",
    b"\n0.1 0.2\n": r"line 101: got 0 values",
    b"  \n": r"line 101: got 0 values",
    b"0.1 one\n": r"line 101: got 'one', expected a number",
    b"0.1 #2\n": r"line 101: got '#2', expected a number",
    b"0.1 nan\n": r"line 101: got a number that is not finite",
    b"0.1 1e99\n": r"line 101: got a number that is not finite",
    b"0.1 \xff\n": r"line 101: got byte 0xff, expected text in UTF-8",
    b"0.1 0_2\n": r"line 101: got '0_2', expected a number",
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_wrong_line_is_refused(line: bytes, folder: Path) -> None:
    with (folder / MEMBER).open("ab") as file:
        file.write(line)
    with pytest.raises(DataError, match=r"X_train\.txt(, |: )" + FAULTS[line]):
        read(folder)


def test_a_table_that_is_wide_or_empty_throughout_is_refused(folder: Path) -> None:
    (folder / MEMBER).write_text(ROWS.replace("\n", " 1.0\n"))
    with refused(DataError, "X_train.txt", "line 1", got="3 values", expected=2):
        read(folder)
    (folder / MEMBER).write_text("")
    with pytest.raises(DataError, match=r"X_train\.txt: got 0 lines"):
        read(folder)


def test_damaged_archives_are_refused(archive: Path) -> None:
    content = archive.read_bytes()
    middle = content.index(b"X_train.txt") + 40
    changed = content[:middle] + bytes(8) + content[middle + 8 :]
    for damaged in (content[: len(content) // 2], changed, b"", b"no zip"):
        archive.write_bytes(damaged)
        with pytest.raises(DataError, match=r"Dataset\.zip: cannot be read as a zip"):
            read(archive)


def test_other_sources_are_refused(tmp_path: Path) -> None:
    with refused(DataError, "nothing", got="no such file", expected="UCI HAR"):
        read(tmp_path / "nothing")
    with refused(DataError, "UCI HAR Dataset.zip", got="no such file"):
        read(tmp_path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("WISDM/readme.txt", "other")
    with refused(DataError, "other.zip", got="UCI HAR Dataset"):
        read(tmp_path / "other.zip")
