"""The table reader: what it reads, and that every fault names its line."""

import io
import tracemalloc

import numpy as np
import pytest

from fedsub_core.errors import DataError
from fedsub_data.preparing.tables import Rows, Table, read_table

TABLE = Table(
    columns=("t", "x", "note", "stage"),
    numbers=("t", "x"),
    words={"stage": ("W", "N1", "")},
    may_be_blank=("x",),
)
HEADER = b"t,x,note,stage\n"


def read(data: bytes, table: Table = TABLE, block_bytes: int = 1 << 22) -> list[Rows]:
    return list(read_table(io.BytesIO(data), "f.csv", table, block_bytes))


def refusal(data: bytes, block_bytes: int = 1 << 22, table: Table = TABLE) -> str:
    with pytest.raises(DataError) as caught:
        read(data, table, block_bytes)
    return str(caught.value)


def test_reads_numbers_blanks_and_words() -> None:
    (rows,) = read(HEADER + b"0,1.5,anything,W\n1e1,,\xc3\xa9,N1\n-2, 3,,\n")
    np.testing.assert_array_equal(rows.numbers, [[0, 1.5], [10, np.nan], [-2, 3]])
    np.testing.assert_array_equal(rows.words["stage"], [0, 1, 2])
    assert rows.line == 2


def test_windows_line_ends_and_a_missing_last_one() -> None:
    first, last = read(HEADER.replace(b"\n", b"\r\n") + b"0,1,,W\r\n1,2,,N1")
    np.testing.assert_array_equal([*first.numbers, *last.numbers], [[0, 1], [1, 2]])
    np.testing.assert_array_equal([*first.words["stage"], *last.words["stage"]], [0, 1])


def test_another_separator_blank_and_no_header() -> None:
    table = Table(("a", "b"), ("a", "b"), blank="NaN", may_be_blank=("b",), separator=" ")
    table = Table(**{**table.__dict__, "header": False})
    (rows,) = read(b"1 NaN\n2 3\n", table)
    np.testing.assert_array_equal(rows.numbers, [[1, np.nan], [2, 3]])
    assert rows.line == 1


@pytest.mark.parametrize("block_bytes", [1, 7, 16, 64, 1 << 20])
def test_blocks_of_any_size_give_the_same_rows(block_bytes: int) -> None:
    data = HEADER + b"".join(b"%d,%d,n,W\n" % (i, i * i) for i in range(200))
    blocks = read(data, block_bytes=block_bytes)
    whole = np.concatenate([rows.numbers for rows in blocks])
    np.testing.assert_array_equal(whole, [[i, i * i] for i in range(200)])
    starts = np.cumsum([0, *[len(rows.numbers) for rows in blocks[:-1]]])
    assert [rows.line for rows in blocks] == [2 + start for start in starts]


GOOD = b"0,1,n,W\n"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"0,1,n\n", "3 columns, expected 4 columns"),
        (b"0,1,n,W,W\n", "5 columns, expected 4 columns"),
        (b"\n", "an empty line, expected 4 columns"),
        (b"0,one,n,W\n", "'one' as x, expected a finite number or nothing"),
        (b",1,n,W\n", "'' as t, expected a finite number"),
        (b"nan,1,n,W\n", "'nan' as t, expected a finite number"),
        (b"inf,1,n,W\n", "'inf' as t, expected a finite number"),
        (b"1e999,1,n,W\n", "'1e999' as t, expected a finite number"),
        (b"1_0,1,n,W\n", "'1_0' as t, expected a finite number"),
        (b'"0",1,n,W\n', "'\"0\"' as t, expected a finite number"),
        (b"0,1,n,N4\n", "'N4' as stage, expected one of W, N1, ''"),
        (b"0,1,\xe9,W\n", "byte 0xe9, expected text in UTF-8"),
        (b"0,1,n\0,W\n", "a control character inside the line"),
        (b"0,1,n\r,W\n", "a control character inside the line"),
    ],
)
@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_a_fault_names_file_and_line(bad: bytes, words: str, block_bytes: int) -> None:
    message = refusal(HEADER + GOOD * 20 + bad + GOOD * 20, block_bytes)
    assert message.startswith("f.csv, line 22: got ")
    assert words in message


def test_a_short_and_a_long_row_do_not_make_up_for_each_other() -> None:
    assert "line 3: got 3 columns" in refusal(HEADER + GOOD + b"0,1,n\n0,1,n,W,W\n" + GOOD)
    assert "line 3: got 5 columns" in refusal(HEADER + GOOD + b"0,1,n,W,W\n0,1,n\n" + GOOD)


def test_a_truncated_last_line_says_so() -> None:
    message = refusal(HEADER + GOOD * 3 + b"0,1")
    assert "f.csv, line 5: got 2 columns and no end of the line: the file is truncated" in message


def test_wrong_header_and_empty_file() -> None:
    assert "f.csv, line 1: got 't,x,stage', expected the header t,x,note,stage" in refusal(
        b"t,x,stage\n" + GOOD
    )
    assert "an empty file" in refusal(b"")
    assert read(HEADER) == []


def test_a_file_without_lines_is_refused_before_it_fills_the_memory() -> None:
    class Endless(io.BytesIO):
        read_bytes = 0

        def read(self, n: int | None = -1) -> bytes:
            assert n is not None and n > 0, "all of it was asked for"
            self.read_bytes += n
            return b"x" * n

    endless = Endless()
    with pytest.raises(DataError, match="a line of over"):
        next(read_table(endless, "f.csv", TABLE, 1 << 16))
    assert endless.read_bytes < 1 << 21


def test_memory_does_not_grow_with_the_file() -> None:
    def peak(rows: int) -> int:
        file = io.BytesIO(HEADER + GOOD * rows)
        tracemalloc.start()
        for _ in read_table(file, "f.csv", TABLE, 1 << 16):
            pass
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(10_000)
    assert peak(400_000) < 1.3 * peak(40_000)
