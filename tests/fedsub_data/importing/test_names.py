"""Persons, classes and recordings by the names of files and folders."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.importing import import_files
from fedsub_data.importing.name_guess import guessed_pattern
from fedsub_data.importing.names import named, names_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.samples import Imported
from tests.fedsub_data.importing.made_tables import as_parquet, imported, lines, written

PATTERN = r"(?P<subject>p\d+)_(?P<label>[a-z]+)_(?P<recording>\d+)"
#: Names of which the guess is to be right: person and class of each.
FOUND = [
    ("p01_walking_2", "p01", "walking"),
    ("walking/p01", "p01", "walking"),
    ("p01/walking", "p01", "walking"),
    ("subject 7 - walking upstairs", "subject 7", "walking upstairs"),
    ("S3/t1/Stand", "S3", "Stand"),
    ("walking_u5", "u5", "walking"),
    ("anna/walking", "anna", "walking"),
    ("jogging-anna", "anna", "jogging"),
    ("p4_sit_2025-05-09", "p4", "sit"),
    ("p4_acc_sit", "p4", "sit"),
]


def written_files(folder: Path, names: Sequence[str], columns: str = "time,ax,ay") -> Path:
    """Write a recording of 6 s for each name, without a column of persons or classes."""
    for number, name in enumerate(names):
        path = folder / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [line.split(",")[2:] for line in lines(("01",), rows=60)[1:]]
        rows = [[t, f"{float(x) + number}", y] for t, x, y in rows]
        written(path, [columns, *(",".join(row) for row in rows)])
    return folder


@pytest.mark.parametrize(("name", "person", "label"), FOUND)
def test_guesses(name: str, person: str, label: str) -> None:
    files = [Path(f"/data/{name}.csv")]
    others = {label: "Running", person: "ben" if person == "anna" else f"{person[:-1]}9"}
    for one, other in others.items():
        files += [Path(str(path).replace(one, other)) for path in files]
    pattern, notes = guessed_pattern(files)
    found = named(files, pattern)
    assert not notes
    assert (found["subject"][0], found["label"][0]) == (person, label)
    assert set(found["subject"]) == {person, others[person]}
    assert set(found["label"]) == {label, "Running"}


@pytest.mark.parametrize(
    "names",
    [
        ["anna/blue", "anna/red", "ben/blue", "ben/red"],  # which is the person?
        ["01_02", "01_03", "02_02"],
        ["acc_anna", "gyro_anna"],
        ["p1_train", "p1_test", "p2_train", "p2_test"],
        ["p1_walking"],
    ],
)
def test_what_could_be_either_is_not_guessed(names: list[str]) -> None:
    assert guessed_pattern([Path(f"/data/{name}.csv") for name in names]) == ("", [])


def test_a_guess_that_does_not_fit_all_names_is_not_taken(tmp_path: Path) -> None:
    written_files(tmp_path / "a", ["p1_walk_1", "p1_sit_1", "p2_walk_1", "p2_sit_1", "notes"])
    with refused(DataError, "but not 'notes'", "--from-name", got="columns", expected="classes"):
        imported(tmp_path / "a", tmp_path / "out")


def test_names_give_person_and_class(tmp_path: Path) -> None:
    names = [f"p0{p}_{state}_{i}" for p in (1, 2) for state in ("walk", "sit") for i in (1, 2)]
    written_files(tmp_path / "a", names)
    guess, said = (
        imported(tmp_path / "a", tmp_path / f"out{i}", **given)
        for i, given in enumerate(({}, {"from_name": PATTERN}))
    )
    for made in (guess, said):
        assert (made.people, made.samples) == (2, 24)
        assert made.card.classes == ("sit", "walk")
    note = next(note for note in guess.notes if note.startswith("Guessed, person, class"))
    _, pattern = shlex.split(note.partition("names: ")[2].removesuffix("."))
    again = imported(tmp_path / "a", tmp_path / "again", from_name=pattern)
    assert (again.people, again.samples, again.card.classes) == (2, 24, ("sit", "walk"))
    assert not any("--from-name" in note for note in said.notes)
    own = read_federation(tmp_path / "out0").clients["p01"]
    # Files in the order of their names: both sitting ones, then walking.
    assert own.y.tolist() == [0] * 6 + [1] * 6
    assert own.x[0, 0].mean() == pytest.approx(own.x[3, 0].mean() - 1, abs=0.3)


def test_the_same_name_in_several_folders_is_not_one_person(tmp_path: Path) -> None:
    files = [tmp_path / folder / "rec.csv" for folder in ("anna", "ben")]
    for path in files:
        path.parent.mkdir()
        written(path, [line.partition(",")[2] for line in lines(("01",))])
    imported(tmp_path, tmp_path / "out")
    assert list(read_federation(tmp_path / "out").clients) == ["anna-rec", "ben-rec"]


def test_a_column_of_classes_comes_before_a_guess(tmp_path: Path) -> None:
    for name in ("p1_run_1", "p1_row_2", "p2_run_1"):
        written(tmp_path / f"{name}.csv", [x.partition(",")[2] for x in lines(("01",))])
    made = imported(tmp_path, tmp_path / "out")
    assert made.card.classes == ("sit", "walk") and made.people == 2
    guess = next(note for note in made.notes if "--from-name" in note)
    assert guess.startswith("Guessed, person, recording by") and "<label>" not in guess


def test_patterns_are_checked(tmp_path: Path) -> None:
    with refused(ConfigError, "from-name", got="a group 'who'", expected="subject, label"):
        ImportOptions(from_name="(?P<who>a)")
    with refused(ConfigError, "label", got="'x' and from-name"):
        ImportOptions(from_name=PATTERN, label="x")
    files = [tmp_path / "p1_walk_acc.csv", tmp_path / "p1_walk_gyro.csv"]
    pattern = r"(?P<subject>p\d)_(?P<label>\w+)_(?P<sensor>\w+)\."
    with refused(DataError, "merge_asof", got="'acc' and 'gyro'"):
        names_of(files, ImportOptions(from_name=pattern))
    assert names_of(files[:1], ImportOptions(from_name=pattern)).of("sensor", 0) == "acc"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_no_window_spans_two_recordings_of_a_column(tmp_path: Path, form: str) -> None:
    """Times go on without a pause, so that only the column shows a new recording."""
    head, *rest = lines(("01", "02"), rows=120)
    rows = [f"{line},{'a' if i % 120 < 50 else 'b'}" for i, line in enumerate(rest)]
    path = written(tmp_path / "t.csv", [f"{head},take", *rows])
    path = as_parquet(path) if form == "parquet" else path

    def read(out: str, **given: object) -> Imported:
        options = ImportOptions(window="2s", overlap=0.0, features="ax,ay", **given)  # type: ignore[arg-type]
        return import_files([str(path)], tmp_path / out, options, lambda done, of: None)

    read("one")
    made = read("two", recording="take")
    starts = [read_federation(tmp_path / out).clients["01"].t for out in ("one", "two")]
    assert [t.tolist() for t in starts if t is not None] == [
        pytest.approx([0, 2, 4, 6, 8, 10]),
        pytest.approx([0, 2, 5, 7, 9]),
    ]
    assert made.samples == 10
    with refused(DataError, "recording", got="'takes'", expected="take"):
        read("three", recording="takes")
