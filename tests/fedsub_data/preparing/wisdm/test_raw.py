"""The faults of the official raw file, each alone, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.preparing.wisdm.raw import Rows, read_rows

FIRST = "33,Jogging,49105962326000,-0.6946377,12.680544,0.50395286"
SECOND = "33,Jogging,49106062271000,5.012288,11.264028,0.95342433"
VALUES = [[-0.6946377, 12.680544, 0.50395286], [5.012288, 11.264028, 0.95342433]]


def rows_of(text: str) -> tuple[Rows, dict[str, int]]:
    rows, counts = read_rows(text.encode().splitlines(keepends=True), "raw.txt")
    # Whatever happens, every row is kept or counted as dropped.
    dropped = sum(count for what, count in counts.items() if what.startswith("rows dropped"))
    assert counts["rows read"] == len(rows.user) + dropped
    return rows, {what: count for what, count in counts.items() if count}


REPAIRED = {
    f"{FIRST}\n{SECOND};\n": {"missing semicolon": 1},
    f"{FIRST};\n{SECOND}": {"missing semicolon": 1},
    f"{FIRST};;\n{SECOND};\n": {"doubled semicolon": 1},
    f"{FIRST};{SECOND};\n": {"several on one line": 1},
    f"{FIRST};;{SECOND}\n": {
        "doubled semicolon": 1,
        "missing semicolon": 1,
        "several on one line": 1,
    },
    f"{FIRST}{SECOND};\n": {"missing semicolon": 1, "several on one line": 1},
    f"{FIRST} {SECOND};\n": {"missing semicolon": 1, "several on one line": 1},
    f"{FIRST},;\n{SECOND};\r\n": {"comma before the semicolon": 1},
}


@pytest.mark.parametrize("text", REPAIRED)
def test_repaired(text: str) -> None:
    rows, counts = rows_of(text)
    expected = {f"rows repaired: {fault}": count for fault, count in REPAIRED[text].items()}
    assert counts == {"rows read": 2, **expected}
    assert rows.user.tolist() == [33, 33] and rows.label.tolist() == [1, 1]
    assert rows.stamp.tolist() == [49105962326000, 49106062271000]
    np.testing.assert_array_equal(rows.acceleration, VALUES)


DROPPED = {
    "\n": "empty",
    " ;\n": "empty",
    "33,Jogging,49106000000000,0.1,0.2,;\n": "no z",
    "33,Jogging,0,0,0,0.0;\n": "timestamp 0",
    "33,Jogging,0,1.5,2.5,0.14982383;\n": "timestamp 0",
    f"{FIRST};\n": "same as the row before",
}


@pytest.mark.parametrize("line", DROPPED)
def test_dropped(line: str) -> None:
    rows, counts = rows_of(f"{FIRST};\n{line}{SECOND};\n")
    expected = {"rows read": 3, f"rows dropped: {DROPPED[line]}": 1}
    assert {what: n for what, n in counts.items() if "repaired" not in what} == expected
    np.testing.assert_array_equal(rows.acceleration, VALUES)


def test_a_recording_that_is_there_twice_is_read_once() -> None:
    rows, counts = rows_of(f"{FIRST};\n{SECOND};\n" * 2)
    assert counts == {"rows read": 4, "rows dropped: repeated from earlier in the file": 2}
    np.testing.assert_array_equal(rows.acceleration, VALUES)


def test_another_reading_at_the_same_time_is_kept() -> None:
    rows, _ = rows_of(f"{FIRST};\n{FIRST}1;\n")
    assert len(rows.user) == 2


def test_an_empty_file_has_no_rows() -> None:
    rows, counts = rows_of("")
    assert rows.acceleration.shape == (0, 3) and counts == {}


REFUSED = {
    "33,Jumping,1,0.1,0.2,0.3;": r"activity 'Jumping', expected one of Walking",
    "33, Jogging,1,0.1,0.2,0.3;": r"activity ' Jogging'",
    "37,Jogging,1,0.1,0.2,0.3;": r"user '37', expected a user from 1 to 36",
    "37,Jogging,1,0.1,0.2,;": r"user '37'",
    "033,Jogging,1,0.1,0.2,0.3;": r"user '033'",
    "33,Jogging,1e9,0.1,0.2,0.3;": r"timestamp '1e9'",
    "33,Jogging,-1,0.1,0.2,0.3;": r"timestamp '-1'",
    f"33,Jogging,{2**63},0.1,0.2,0.3;": r"timestamp '9223372036854775808'",
    f"33,Jogging,{'9' * 5000},0.1,0.2,0.3;": r"timestamp '9999",
    "33,Jogging,1,0.1,nan,0.3;": r"accelerations 0\.1, nan, 0\.3",
    "33,Jogging,1,0.1,1e999,0.3;": r"accelerations 0\.1, 1e999",
    "33,Jogging,1,0.1,0_2,0.3;": r"accelerations 0\.1, 0_2",
    "33,Jogging,1,,0.2,0.3;": r"accelerations , 0\.2",
    "33,Jogging,1,0.1,0.2;": r"5 columns in '33,Jogging,1,0\.1,0\.2', expected the 6",
    "33,Jogging,1,0.1,0.2,0.3,0.4;": r"7 columns",
    "33,Jogging,1,0.1,0.2,0.333,Walking,2,0.1,0.2,0.3;": r"11 columns",
    "33,Jogging,1,0.1,0.2,0.317,Jogging,2,0.1,0.2,0.3;": r"11 columns",
    "33,Jog": r"2 columns",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refused_with_file_and_line(line: str) -> None:
    with pytest.raises(DataError, match=r"^raw\.txt, line 3: got " + REFUSED[line]):
        rows_of(f"{FIRST};\n\n{line}\n{SECOND};\n")


def test_bytes_that_are_no_text_are_refused() -> None:
    with refused(DataError, "raw.txt", "line 2", got="0xff", expected="UTF-8"):
        read_rows([f"{FIRST};\n".encode(), b"33,Jog\xffing,1,2,3,4;\n"], "raw.txt")


def test_the_first_official_rows(real_data: Path) -> None:
    path = real_data / "wisdm-official" / "WISDM_ar_v1.1_raw.first5rows.txt"
    if not path.is_file():
        pytest.skip(f"no official rows at {path}")
    with path.open("rb") as lines:
        rows, counts = read_rows(lines, str(path))
    assert {what: n for what, n in counts.items() if n} == {"rows read": 5}
    assert rows.user.tolist() == [33] * 5 and rows.label.tolist() == [1] * 5
    assert np.diff(rows.stamp).tolist() == [99945000, 49896000, 110138000, 109985000]
    np.testing.assert_array_equal(rows.acceleration[4], [-1.1849703, 12.108489, 7.205164])
