"""Tables as loggers and spreadsheets write them: heads, separators, encodings, zips."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.heads import lines_before, shows_decimal_comma
from tests.fedsub_data.importing.made_tables import imported, lines, written

HEAD = ["------ Data File Created By ActiGraph GT3X ------", "Serial Number: 7", "Start 08:00", ""]
TEXT = lines()


def with_comma(text: list[str]) -> list[str]:
    return [line.replace(",", ";").replace(".", ",") for line in text]


def aligned(text: list[str]) -> list[str]:
    return ["".join(f"{cell:>12}" for cell in line.split(",")) for line in text]


#: How a table is written, options, and a part of what is said.
FORMS: dict[str, tuple[Callable[[Path], object], dict[str, object], str]] = {
    "lines before": (
        lambda path: written(path, [*HEAD, *TEXT]),
        {},
        "Skipped: 4 lines before the table in",
    ),
    "lines before, said": (
        lambda path: written(path, ["a,b,c,d,e", *TEXT]),
        {"skip_lines": 1},
        "Skipped: 1 lines before",
    ),
    "sep": (
        lambda path: written(path, ["sep=;", *(x.replace(",", ";") for x in TEXT)]),
        {},
        "the first: 'sep=;'",
    ),
    "no names": (
        lambda path: written(path, TEXT[1:]),
        {"column_names": "user,activity,time,ax,ay"},
        "Guessed: --label activity",
    ),
    "tabs": (
        lambda path: written(path, [x.replace(",", "\t") for x in TEXT]),
        {},
        "Guessed: --time time",
    ),
    "blanks": (lambda path: written(path, aligned(TEXT)), {}, "separated by blanks"),
    "blanks, said": (
        lambda path: written(path, aligned(TEXT)),
        {"delimiter": " "},
        "Guessed: --time time",
    ),
    "UTF-16": (lambda path: written(path, TEXT, "utf-16"), {}, "read as utf-16"),
    "UTF-16 without a mark": (
        lambda path: written(path, TEXT, "utf-16-le"),
        {},
        "Guessed: --time time",
    ),
    "Excel": (lambda path: written(path, with_comma(TEXT), "utf-8-sig"), {}, "--decimal ,"),
}


@pytest.fixture
def right(tmp_path: Path) -> np.ndarray:
    """The first person's windows of the plain table."""
    imported(written(tmp_path / "plain.csv", TEXT), tmp_path / "plain")
    return read_federation(tmp_path / "plain").clients["01"].x


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_read_alike(tmp_path: Path, right: np.ndarray, form: str) -> None:
    write, given, said = FORMS[form]
    write(tmp_path / "a.csv")
    made = imported(tmp_path / "a.csv", tmp_path / "out", **given)
    assert any(said in note for note in made.notes), made.notes
    np.testing.assert_array_equal(read_federation(tmp_path / "out").clients["01"].x, right)


def test_packed_files_are_read_alike(tmp_path: Path, right: np.ndarray) -> None:
    text = ("\n".join(TEXT) + "\n").encode()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("day 1/a.csv", text)
        archive.writestr("__MACOSX/._a.csv", "x")
        archive.writestr("readme.md", "x")
    for name in ("a.txt.gz", "b.zip"):
        made = imported(tmp_path / name, tmp_path / f"out-{name}")
        own = read_federation(tmp_path / f"out-{name}").clients["01"].x
        np.testing.assert_array_equal(own, right)
    assert any("readme.md" in note for note in made.notes)
    assert not list(Path("/tmp").glob("fedsub-zip-*"))


def test_bombs_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", bytes(2**27))
    with refused(DataError, "b.zip", got="134,217,728", expected="bytes unpacked"):
        imported(tmp_path / "b.zip", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("../a.csv", "x")
    with refused(DataError, "c.zip", got="'../a.csv'"):
        imported(tmp_path / "c.zip", tmp_path / "out")


def test_lines_that_are_rows_are_not_skipped() -> None:
    damaged = [*TEXT[:5], "01,walk,0.5", *TEXT[5:60]]
    assert lines_before(damaged, "") == 0
    assert lines_before(TEXT[1:60], "") == 0
    assert lines_before([*HEAD, *TEXT[1:60]], "") == 0  # no names
    assert lines_before([*HEAD, *TEXT[:60]], "") == len(HEAD)


def test_a_line_is_named_where_lines_stand_before(tmp_path: Path) -> None:
    bad = TEXT[9].rpartition(",")[0] + ",x"
    path = written(tmp_path / "a.csv", [*HEAD, *TEXT[:9], bad, *TEXT[10:]])
    with refused(DataError, "a.csv, line 14,", got="'x'"):
        imported(path, tmp_path / "out")


def test_names_of_columns_are_counted_and_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", TEXT[1:])
    with refused(DataError, "--column-names", got="5 columns", expected=3):
        imported(path, tmp_path / "out", column_names="a,b,c")


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["1,5", "2,25"], True),
        (["0,128", "-0,231"], True),
        (["1,234", "2,345"], False),  # may be thousands
        (["1,5", "2.5"], False),
        (["1", "2"], False),
    ],
)
def test_a_decimal_comma_must_show(texts: list[str], shown: bool) -> None:
    assert shows_decimal_comma([texts]) is shown
