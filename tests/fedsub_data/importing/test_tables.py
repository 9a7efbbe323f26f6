"""Tables of text and Parquet: what columns are, what is dropped, and how it is said."""

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.importing import open_source
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.table_files import TableFiles

from .made_tables import imported, lines, written


def changed(text: Sequence[str], line: int, old: str, new: str) -> list[str]:
    """Lines of which one, by its number in the file, has another text."""
    made = list(text)
    assert old in made[line - 1]
    made[line - 1] = made[line - 1].replace(old, new, 1)
    return made


def test_a_table_becomes_windows_of_named_classes_and_people(tmp_path: Path) -> None:
    made = imported(written(tmp_path / "a.csv", lines()), tmp_path / "out")
    federation = read_federation(tmp_path / "out")
    card = federation.card
    assert list(federation.clients) == ["01", "02", "03"]  # text, not numbers
    assert card.classes == ("sit", "walk") and card.features == ("ax", "ay")
    assert card.sampling_rate_hz == 10 and card.window_s == 2 and card.overlap == 0
    data = federation.clients["02"]
    assert data.x.shape == (6, 2, 20) and data.y.tolist() == [1, 1, 1, 0, 0, 0]
    assert data.t is not None and data.t.tolist() == [0, 2, 4, 6, 8, 10]
    np.testing.assert_allclose(data.x[1, 0], 1.1 + np.sin(np.arange(20, 40)), atol=1e-4)
    assert made.samples == 18 and not made.dropped.counts
    assert "Guessed: --subject user." in made.notes
    assert "Guessed: --features ax,ay." in made.notes
    kept = json.loads((tmp_path / "out" / "preparation.json").read_text())
    assert kept["counts"] == {"people": 3, "samples": 18} and kept["options"]["window"] == "2s"


def test_rows_are_samples_where_there_is_no_time(tmp_path: Path) -> None:
    text = [",".join(np.delete(line.split(","), 2)) for line in lines()]
    imported(written(tmp_path / "a.csv", text), tmp_path / "out", window="auto")
    data = read_federation(tmp_path / "out").clients["01"]
    assert data.x.shape == (120, 2) and data.t is None


def test_the_order_of_rows_is_time_where_a_rate_says_so(tmp_path: Path) -> None:
    """Rows of several people take turns: each person's own are one behind the other."""
    text = [",".join(np.delete(line.split(","), 2)) for line in lines()]
    head, *rest = text
    turns = [rest[person * 120 + i] for i in range(120) for person in range(3)]
    made = imported(written(tmp_path / "a.csv", [head, *turns]), tmp_path / "out", rate=10.0)
    assert made.samples == 18 and not made.dropped.counts


@pytest.mark.parametrize(
    ("line", "old", "new", "why", "column"),
    [
        (5, "0.300", "", Why.TIMELESS, "time"),
        (5, "1.1411", "", Why.MISSING, "ax"),
        (5, "1.1411", "NaN", Why.MISSING, "ax"),
        (5, "-1.1411", "?", Why.MISSING, "ay"),
    ],
)
def test_a_value_that_is_missing_is_named(
    tmp_path: Path, line: int, old: str, new: str, why: Why, column: str
) -> None:
    path = written(tmp_path / "a.csv", changed(lines(), line, old, new))
    made = imported(path, tmp_path / "out")
    assert made.dropped.counts == {why: {"01": 1}}
    first = made.dropped.first[why]
    assert f"{path}, line {line}, column {column!r}: got nothing, person '01'" == first
    (said,) = made.dropped.sentences()
    assert first in said and "--" in said
    # The hole of one row is filled by resampling: no window is lost.
    assert made.samples == 18


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    """Empty lines and quoted cells of two lines come before the row that is named."""
    text = [*lines()[:3], "", '01,"walk",0.2,1,\n'.strip(), *lines()[4:]]
    text[0] += ",note"
    text = [text[0], *(f'{one},"a\nb"' if one else one for one in text[1:])]
    path = written(tmp_path / "a.csv", text)
    made = imported(path, tmp_path / "out")
    assert f"line {1 + 2 * 2 + 1 + 1}," in made.dropped.first[Why.MISSING]


def test_text_among_numbers_stops_and_an_option_drops_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", changed(lines(), 5, "1.1411", "high"))
    with refused(DataError, "a.csv", "line 5", "column 'ax'", "person '01'", got="'high'"):
        imported(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    made = imported(path, tmp_path / "out", not_numbers="drop")
    assert made.dropped.counts == {Why.TEXT: {"01": 1}}


def test_a_decimal_comma_is_recognised_and_read_when_told(tmp_path: Path) -> None:
    text = [line.replace(",", ";").replace(".", ",") for line in lines()]
    path = written(tmp_path / "a.csv", text)
    with refused(DataError, "line 2", "column", "--decimal ,"):
        imported(path, tmp_path / "out", time="none", rate=10.0, decimal=".")
    for i, given in enumerate(({"decimal": ","}, {})):
        made = imported(path, tmp_path / f"out{i}", **given)
        assert made.samples == 18 and not made.dropped.counts
        assert ("Guessed: --decimal ,." in made.notes) is (not given)


@pytest.mark.parametrize(("encoding", "said"), [("utf-8-sig", "utf-8"), ("utf-16", "utf-16")])
def test_a_byte_order_mark_is_passed_over_and_said(
    tmp_path: Path, encoding: str, said: str
) -> None:
    made = imported(written(tmp_path / "a.csv", lines(), encoding), tmp_path / "out")
    assert made.samples == 18
    assert any("byte-order mark" in note and f"read as {said}" in note for note in made.notes)
    assert "Guessed: --subject user." in made.notes  # the mark is no part of the first name


def test_another_encoding_is_named_and_read_when_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", [x.replace("sit", "öde") for x in lines()], "latin-1")
    with refused(DataError, "line 62", "--encoding latin-1", expected="UTF-8"):
        imported(path, tmp_path / "out")
    assert imported(path, tmp_path / "out", encoding="latin-1").card.classes == ("walk", "öde")


def test_rows_without_a_label_make_no_window(tmp_path: Path) -> None:
    text = [line.replace("01,sit", "01,") for line in lines()]
    path = written(tmp_path / "a.csv", text)
    made = imported(path, tmp_path / "out")
    assert made.dropped.counts == {Why.UNLABELLED: {"01": 3}} and made.samples == 15
    assert made.dropped.first[Why.UNLABELLED] == f"{path}, line 62, person '01'"
    with refused(DataError, "a.csv", "line 62", "person '01'", 60):
        imported(path, tmp_path / "other", unlabelled="stop")
    third = [line.replace("02,walk", "02,run") for line in text]
    made = imported(written(path, third), tmp_path / "third", no_label="walk")
    assert made.card.classes == ("run", "sit")
    assert made.dropped.counts[Why.UNLABELLED] == {"01": 6, "03": 3}
    with pytest.raises(DataError, match=r"got one class, 'sit', expected two"):
        imported(written(path, text), tmp_path / "one", no_label="walk")


def test_rows_of_one_time_are_dropped_kept_or_refused(tmp_path: Path) -> None:
    text = lines()
    path = written(tmp_path / "a.csv", [*text[:5], text[4], *text[5:]])
    made = imported(path, tmp_path / "out")
    assert made.dropped.counts == {Why.REPEATED: {"01": 1}} and made.samples == 18
    assert "line 6, column 'time': got '0.300'" in made.dropped.first[Why.REPEATED]
    with pytest.raises(DataError, match="--duplicates drop"):
        imported(path, tmp_path / "other", duplicates="stop")


def test_a_clock_of_whole_seconds_is_spread_evenly(tmp_path: Path) -> None:
    """Ten rows bear each second: kept, they are a signal of 10 Hz."""
    text = lines()
    coarse = [text[0]]
    for line in text[1:]:
        user, state, t, *rest = line.split(",")
        coarse.append(",".join([user, state, str(int(float(t))), *rest]))
    path = written(tmp_path / "a.csv", coarse)
    imported(path, tmp_path / "out", duplicates="keep", rate=10.0, time_unit="s")
    data = read_federation(tmp_path / "out").clients["01"]
    assert data.x.shape == (6, 2, 20)
    np.testing.assert_allclose(data.x[1, 0], 1 + np.sin(np.arange(20, 40)), atol=1e-4)


def test_time_that_runs_backwards_is_named_sorted_or_split(tmp_path: Path) -> None:
    text = lines()
    swapped = [*text[:10], text[11], text[10], *text[12:]]
    path = written(tmp_path / "a.csv", swapped)
    with refused(DataError, "line 12", "column 'time'", "person '01'", "backwards", got="'0.900'"):
        imported(path, tmp_path / "out")
    assert imported(path, tmp_path / "sorted", backwards="sort").samples == 18
    # The recording of 11 rows before is shorter than a window.
    made = imported(path, tmp_path / "split", backwards="split")
    assert made.dropped.counts[Why.LEFT_OVER]["01"] >= 11


def test_people_in_other_units_are_named(tmp_path: Path) -> None:
    text = lines(("a", "b", "c", "d"))
    for i, line in enumerate(text):
        if line.startswith("c,"):
            *head, ax, ay = line.split(",")
            text[i] = ",".join([*head, f"{float(ax) * 9.80665:.4f}", f"{float(ay) * 9.80665:.4f}"])
    path = written(tmp_path / "a.csv", text)
    with refused(DataError, "person 'c'", "columns 'ax', 'ay'", "g and m/s^2", "--mixed-units"):
        imported(path, tmp_path / "out")
    assert imported(path, tmp_path / "out", mixed_units="keep").people == 4


def test_lines_of_other_lengths_are_named_and_dropped_when_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", changed(lines(), 5, ",1.1411", ""))
    with refused(DataError, "line 5", "--bad-lines drop", got="4 columns", expected=5):
        imported(path, tmp_path / "out")
    text = changed(changed(lines(), 5, ",1.1411", ""), 9, "1.6570", "")
    made = imported(written(path, text), tmp_path / "out", bad_lines="drop")
    assert made.dropped.counts == {Why.BAD_LINES: {"": 1}, Why.MISSING: {"01": 1}}
    assert "line 9," in made.dropped.first[Why.MISSING]  # the line that was dropped is counted


def test_files_of_people_by_their_names(tmp_path: Path) -> None:
    head, *rest = lines()
    for person in ("01", "02", "03"):
        own = [line[3:] for line in rest if line.startswith(person)]
        written(tmp_path / f"rec-{person}.tsv", [x.replace(",", "\t") for x in [head[5:], *own]])
    made = imported(tmp_path / "rec-*.tsv", tmp_path / "out", from_name=r"(\d+)")
    assert made.people == 3 and made.samples == 18
    assert list(read_federation(tmp_path / "out").clients) == ["01", "02", "03"]
    made = imported(tmp_path / "rec-*.tsv", tmp_path / "guessed")
    assert "Guessed: each file is a person, with the file's name." in made.notes
    with pytest.raises(ConfigError, match=r"finds no person in 'rec-01.tsv'"):
        imported(tmp_path / "rec-*.tsv", tmp_path / "none", from_name="s(a+)")
    written(tmp_path / "rec-04.tsv", ["activity\ttime\tax", "sit\t0\t1"])
    with refused(DataError, "rec-04.tsv", got="columns", expected="ay"):
        imported(tmp_path / "rec-*.tsv", tmp_path / "none", from_name=r"(\d+)")


def test_parquet_and_dates(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", lines())
    duckdb.sql(
        "COPY (SELECT user::INTEGER AS user, activity, "
        "TIMESTAMP '2026-01-01' + to_milliseconds(time * 1000) AS time, ax, ay "
        f"FROM '{tmp_path}/a.csv') TO '{tmp_path}/a.parquet'"
    )
    made = imported(tmp_path / "a.parquet", tmp_path / "out")
    data = read_federation(tmp_path / "out").clients["1"]
    assert made.samples == 18 and data.t is not None
    assert data.t[:2].tolist() == [1767225600.0, 1767225602.0]


def test_a_second_name_of_the_class_is_no_feature(tmp_path: Path) -> None:
    """Nor is the person's number; and of axes x, y and z none is the class."""
    text = ["x,y,z,activity,activity_id,user,id,seconds"]
    text += [f"{i % 7},{i % 5},{i % 11},{'ab'[i % 2]},{i % 2},{i % 3},{i},{i}" for i in range(60)]
    made = imported(written(tmp_path / "a.csv", text), tmp_path / "out", time="none", window="none")
    assert made.card.features == ("x", "y", "z") and made.card.classes == ("a", "b")
    said = "Left out, as they seem to name person, class or time: 'activity_id', 'id', 'seconds'."
    assert said in made.notes


def test_people_with_too_few_samples_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", [*lines(), "04,sit,0.1,1,1"])
    made = imported(path, tmp_path / "out")
    assert made.people == 3 and made.dropped.counts[Why.FEW] == {"04": 1}
    assert any("Dropped 1 people with too few samples." in s for s in made.dropped.sentences())


def test_numbers_of_classes_stay_in_their_order(tmp_path: Path) -> None:
    text = [line.replace("walk", "10").replace("sit", "9.0") for line in lines()]
    assert imported(written(tmp_path / "a.csv", text), tmp_path / "out").card.classes == ("9", "10")


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        (["a,b", "1,2"], {}, "expected a column of classes. Name it with --label"),
        (["label,user", "1,2"], {}, "expected numeric columns besides"),
        (["label,ax", "1,2"], {}, "Name it with --subject COLUMN"),
        (["label,user,ax", "1,2,3"], {"label": "lable"}, "Did you mean 'label'"),
        (["label,user,ax", "1,2,3", "2,2,4"], {}, "rate: got no column of time"),
        (["label", "1"], {}, "got one column"),
        ([""], {}, "a.csv: "),
    ],
)
def test_what_cannot_be_found_is_asked_for(
    tmp_path: Path, text: list[str], given: dict[str, str], words: str
) -> None:
    with pytest.raises((DataError, ConfigError)) as error:
        imported(written(tmp_path / "a.csv", text), tmp_path / "out", **given)
    assert words in str(error.value)


def test_rows_of_a_large_file_stay_in_its_order(tmp_path: Path) -> None:
    """Of one that several threads would read, a part each: 40 MB, mostly of a note."""
    note = "x" * 400
    with (tmp_path / "a.csv").open("w", encoding="utf-8") as file:
        file.write("user,activity,time,ax,note\n")
        file.writelines(f"{i // 25_000},{i % 2},{i % 25_000},{i},{note}\n" for i in range(100_000))
    with closing(open_source([str(tmp_path / "a.csv")], ImportOptions(features="ax"))) as source:
        read = list(source.rows())
    assert [rows.person for rows in read] == ["0", "1", "2", "3"]
    for number, rows in enumerate(read):
        expected = np.arange(25_000) + 25_000 * number
        assert np.array_equal(rows.row, expected) and np.array_equal(rows.x[:, 0], expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.open("a").write("03,sit,99,1,1\n"),
        lambda path: path.open("a").write("03,si"),  # a logger in the middle of a line
        lambda path: path.write_text("user,"),
        lambda path: path.unlink(),
    ],
    ids=["longer", "half a line", "begun anew", "removed"],
)
def test_a_file_that_changes_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    path = written(tmp_path / "a.csv", lines())
    begin = TableFiles.sample

    def slow(self: TableFiles, file: int) -> object:
        found = begin(self, file)
        change(path)
        return found

    monkeypatch.setattr(TableFiles, "sample", slow)
    with pytest.raises(DataError, match=r"a.csv: changed while it was read"):
        imported(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_people_are_fetched_in_parts_and_the_same_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.csv", lines())
    imported(path, tmp_path / "whole")
    monkeypatch.setattr("fedsub_data.importing.tables.AT_ONCE", 130)
    imported(path, tmp_path / "parts")
    whole, parts = (read_federation(tmp_path / name) for name in ("whole", "parts"))
    for name, data in whole.clients.items():
        assert np.array_equal(data.x, parts.clients[name].x)


def test_without_the_extra_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    path = written(tmp_path / "a.csv", lines())
    with pytest.raises(ConfigError, match=r"pip install 'fedsub\[import\]'"):
        open_source([str(path)], ImportOptions())


def test_without_time_no_window_spans_the_rows_of_others(tmp_path: Path) -> None:
    """A table that is sorted by activity holds each person in several places."""
    rows = [
        f"{person},{state},{number}"
        for number, state in enumerate(("walk", "sit"))
        for person in "ab"
        for _ in range(35)
    ]
    table = written(tmp_path / "t.csv", ["user,activity,ax", *rows])
    for gap in ("auto", "60s"):
        out = tmp_path / f"out-{gap}"
        imported(table, out, rate=10.0, gap=gap, features="ax")
        data = read_federation(out).clients["a"]
        assert data.x.shape == (2, 1, 20)
        assert [np.unique(window).tolist() for window in data.x] == [[0], [1]]


def test_without_time_people_may_take_turns(tmp_path: Path) -> None:
    rows = [f"{person},{'walk' if i < 40 else 'sit'},{i}" for i in range(80) for person in "ab"]
    table = written(tmp_path / "t.csv", ["user,activity,ax", *rows])
    imported(table, tmp_path / "out", rate=10.0, features="ax")
    data = read_federation(tmp_path / "out").clients["b"]
    assert data.x[:, 0].tolist() == np.arange(80.0).reshape(4, 20).tolist()


def test_no_value_in_parquet_is_nobody(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    who = "CASE WHEN i % 10 = 0 THEN 'nan'::DOUBLE ELSE i % 3 END AS subject"
    rows = f"SELECT {who}, 'c' || i % 2 AS label, i / 2 AS f FROM range(60) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{file}'")
    made = imported(file, tmp_path / "out", window="none", features="f")
    assert sorted(read_federation(tmp_path / "out").clients) == ["0", "1", "2"]
    assert made.dropped.counts[Why.NOBODY] == {"": 6}


def test_a_table_without_rows_is_told(tmp_path: Path) -> None:
    for person, rows in (("a", 9), ("b", 9), ("c", 0)):
        table = f"SELECT 'c' || i % 2 AS label, i / 2 AS f FROM range({rows}) t(i)"
        duckdb.sql(f"COPY ({table}) TO '{tmp_path / person}.parquet'")
    made = imported(tmp_path / "*.parquet", tmp_path / "out", window="none")
    assert f"Left out, as there is no row in it: {tmp_path / 'c.parquet'}." in made.notes


@pytest.mark.parametrize(
    "content",
    [b"user,activity\n", gzip.compress(b"user,activity\n")[:-9], b""],
    ids=["none", "cut off", "empty"],
)
def test_a_packed_file_that_is_none_or_cut_off_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"t.csv.gz: (cannot be read|got an empty file)"):
        imported(tmp_path / "t.csv.gz", tmp_path / "out")
