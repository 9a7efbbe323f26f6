"""Classes in several spellings, words that count as no class, and labels that are measurements."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Federation, read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.labels import check_labels, no_class, one_spelling
from fedsub_data.importing.options import ImportOptions

from .made_tables import imported, written


def labels(words: dict[str, list[str]]) -> pd.DataFrame:
    """Ten rows of each person's words."""
    rows = [(person, word) for person, own in words.items() for word in own for _ in range(10)]
    table = pd.DataFrame(rows, columns=["user", "activity"])
    rng = np.random.default_rng(len(rows))
    return table.assign(ax=rng.normal(size=len(rows)), ay=rng.normal(size=len(rows)))


def made(
    way: str, table: pd.DataFrame, folder: Path, caplog: pytest.LogCaptureFixture, **given: str
) -> tuple[Federation, list[str]]:
    """The federation of a table that comes in one of several ways, and what was noted."""
    folder.mkdir(exist_ok=True)
    if way == "DataFrame":
        caplog.clear()
        caplog.set_level("INFO", "fedsub")
        found = fedsub.federation(table, **given)
        return found, [record.message for record in caplog.records]
    path = folder / {"CSV": "a.csv", "Parquet": "a.parquet", "npz": "a.npz", "ts": "ts"}[way]
    if way == "CSV":
        written(path, ["user,activity,ax,ay", *(",".join(map(str, r)) for r in table.to_numpy())])
    elif way == "Parquet":
        rows = table  # noqa: F841  # DuckDB finds it by its name
        duckdb.sql(f"COPY rows TO '{path}'")
    elif way == "npz":
        np.savez(
            path,
            x=table[["ax", "ay"]].to_numpy(),
            y=table["activity"].to_numpy(str),
            subject=table["user"].to_numpy(str),
        )
    else:
        path.mkdir(exist_ok=True)
        for person, own in table.groupby("user"):
            series = [
                f"{a},{b}:{y}"
                for a, b, y in zip(own["ax"], own["ay"], own["activity"], strict=True)
            ]
            written(path / f"{person}.ts", ["@classLabel true a b", "@data", *series])
    out = folder / "out"
    told = imported(path, out, window="none", **given)
    return read_federation(out), list(told.notes)


WAYS = pytest.mark.parametrize("way", ["CSV", "Parquet", "npz", "ts", "DataFrame"])


@WAYS
def test_spellings_are_refused_merged_or_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    table = labels({"ann": ["ROWING", "rest"], "bob": ["Rowing", "rest"], "cy": ["rowing", "rest"]})
    with refused(DataError, "'ROWING', 'Rowing', 'rowing'", "merge"):
        made(way, table, tmp_path, caplog)
    merged, _ = made(way, table, tmp_path / "merged", caplog, spelling="merge")
    assert sorted(merged.card.classes) == ["rest", "rowing"]
    for client in merged.clients.values():
        assert np.bincount(client.y).tolist() == [10, 10]
    kept, _ = made(way, table, tmp_path / "kept", caplog, spelling="keep")
    assert sorted(kept.card.classes) == ["ROWING", "Rowing", "rest", "rowing"]


@WAYS
@pytest.mark.parametrize("word", ["none", "None", "NA", "?", "null"])
def test_words_for_no_class_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str, word: str
) -> None:
    table = labels({"ann": ["row", "rest", word], "bob": ["row", "rest"]})
    found, notes = made(way, table, tmp_path, caplog)
    assert sorted(found.card.classes) == ["rest", "row"] and len(found.clients["ann"].y) == 20
    (note,) = (note for note in notes if note.startswith("Counted as no label"))
    assert f"{word!r} (10 rows)" in note


def test_who_is_left_with_one_class_reads_which_words_were_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = labels({"ann": ["row", "none"], "bob": ["row"]})
    with refused(DataError, "one class", "'row'", "'none'", "10 rows"):
        made("CSV", table, tmp_path, caplog)


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["stand_up", "Stand up", "stand-up", "StandUp"], True),
        (["Größe", "GRÖSSE"], True),
        (["A", "B", "A-", "B+"], False),
        (["level 1", "level -1", "level 11"], False),
        (["1", "-1", "11"], False),
        (["walk up", "walk", "up"], False),
    ],
)
def test_what_counts_as_one_spelling(names: list[str], alike: bool) -> None:
    given = {name: name for name in names}
    if not alike:
        assert one_spelling(given, ImportOptions()) == given
        return
    with pytest.raises(DataError, match="spelling"):
        one_spelling(given, ImportOptions())
    assert set(one_spelling(given, ImportOptions(spelling="merge")).values()) == {names[-1]}


def test_what_an_option_calls_no_class_is_not_named() -> None:
    names = {"": None, "0": None, "none": None, "row": "row"}
    told = no_class(dict.fromkeys(names, 3), names, ImportOptions(no_label="0"))
    assert len(told) == 1 and "'none' (3 rows)." in told[0]
    assert no_class({"": 3, "0": 3}, names, ImportOptions(no_label="0")) == []


def test_merged_classes_keep_the_order_of_the_spelling_that_stays() -> None:
    """So a federation has the same order as one in which that spelling alone was used."""
    given = {"Walk": "Walk", "sit": "sit", "walk": "walk", "-": None}
    found = one_spelling(given, ImportOptions(spelling="merge"))
    assert list(dict.fromkeys(found.values())) == ["sit", "walk", None]
    assert found["Walk"] == "walk"


DEFAULT, KEEP = ImportOptions(), ImportOptions(measured_labels="keep")


def whole(numbers: range | list[int]) -> list[str]:
    """Return whole numbers as labels."""
    return [str(one) for one in numbers]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([f"{i / 73:.4f}" for i in range(1, 41)], "40 labels that are decimal numbers"),
        (["0.5", "1", "2"], "3 labels that are decimal numbers from 0.5 to 2 (0.5, ...)"),
        ([*(f"{i},25" for i in range(30)), "unknown"], "31 labels that are decimal numbers"),
        (whole(range(60, 111)), "51 labels that are whole numbers from 60 to 110 (60, 61, 62"),
        (whole(range(0, 1000, 20)), "50 labels that are whole numbers from 0 to 980"),
        (whole(range(-25, 25)), "50 labels that are whole numbers from -25 to 24"),
    ],
    ids=["decimals", "doses", "commas", "heart", "steps", "degrees"],
)
def test_measurements_are_refused(labels: list[str], said: str) -> None:
    with pytest.raises(DataError) as error:
        check_labels(labels, DEFAULT, "out")
    text = str(error.value)
    assert text.startswith(f"out: got {said}") and "--target" in text
    assert "--label" in text and "--measured-labels keep" in text
    assert check_labels(labels, KEEP, "out") == []


@pytest.mark.parametrize(
    "labels",
    [
        ["rest", "row"],
        ["-1", "0", "1"],
        whole([*range(8), 12, 13, 16, 17, 18, 19, 20, 24]),  # PAMAP2's activities
        whole([406516, 406517, 404516, 404517, 406520]),
        [f"v{i}.5" for i in range(40)],
        ["1.5", "word", "other"],
    ],
)
def test_labels_of_classes_pass(labels: list[str]) -> None:
    assert check_labels(labels, DEFAULT, "out") == []


def test_many_numbers_that_count_pass_and_are_named() -> None:
    """As 52 gestures and a rest do. So could a scale, which is said."""
    (note,) = check_labels(whole(range(53)), DEFAULT, "out")
    assert note.startswith("53 labels are whole numbers from 0 to 52, taken as classes.")


def test_nothing_is_written_of_measurements(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    text = [f"u{i % 3},{rng.integers(60, 110)},{rng.normal():.3f}" for i in range(600)]
    path = written(tmp_path / "a.csv", ["user,heart_rate,ax", *text])
    with pytest.raises(DataError, match="whole numbers from 60 to 109"):
        imported(path, tmp_path / "out", label="heart_rate", window="none")
    assert not (tmp_path / "out").exists()
    made = imported(
        path, tmp_path / "out", label="heart_rate", window="none", measured_labels="keep"
    )
    assert len(made.card.classes) == 50


def test_measurements_in_arrays_are_refused_in_pythons_words() -> None:
    rng = np.random.default_rng(2)
    people = {one: (rng.normal(size=(30, 2)), rng.normal(size=30)) for one in "ab"}
    with pytest.raises(DataError, match=r"decimal numbers.*measured_labels"):
        fedsub.federation(people)
