"""Classes by intervals of time: files of them, whose they are, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.samples import Imported
from tests.fedsub_data.importing.made_tables import imported, written

#: Of each recording: 20 s of 10 Hz.
SECONDS, RATE = 20, 10
#: Written on 2024-01-02 at 03:04:05 UTC.
DATED = 1704164645
SIT_WALK = ["start,end,label", "0,10,sit", "10,20,walk"]


def recordings(
    folder: Path, names: Sequence[str] = ("anna", "ben"), start: float = 0, unit: float = 1
) -> Path:
    """Write a recording for each name: times in a unit, s, and two axes that count rows."""
    for number, name in enumerate(names):
        path = folder / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        times = [round((start + i / RATE) / unit, 3) for i in range(SECONDS * RATE)]
        rows = [
            f"{t:.15g},{i + number + np.sin(i):.4f},{np.cos(i):.4f}" for i, t in enumerate(times)
        ]
        written(path, ["time,ax,ay", *rows])
    return folder


def classes(folder: Path) -> dict[str, list[str]]:
    """Return each person's classes, window by window of 2 s."""
    made = read_federation(folder)
    return {
        name: [made.card.classes[code] for code in data.y] for name, data in made.clients.items()
    }


def by_intervals(tmp_path: Path, lines: Sequence[str], **given: object) -> Imported:
    """Import two recordings with the intervals that lines hold."""
    data = recordings(tmp_path / "data")
    file = written(tmp_path / "labels.csv", lines)
    return imported(data, tmp_path / "out", intervals=str(file), **given)


HALVES = ["sit"] * 5 + ["walk"] * 5


def test_intervals_of_everybody(tmp_path: Path) -> None:
    made = by_intervals(tmp_path, SIT_WALK)
    assert classes(tmp_path / "out") == {"anna": HALVES, "ben": HALVES}
    assert any("0 of 400 rows (0 %)" in note for note in made.notes)
    assert "Guessed: --intervals-unit s." in made.notes


def test_rows_outside_are_unlabelled_and_counted(tmp_path: Path) -> None:
    made = by_intervals(tmp_path, ["start,end,label", "4,8,sit", "12,16,walk"])
    assert classes(tmp_path / "out")["anna"] == ["sit"] * 2 + ["walk"] * 2
    assert any("240 of 400 rows (60 %) lie outside" in note for note in made.notes)


@pytest.mark.parametrize(
    "lines",
    [
        ["begin;duration;activity", "0;10;sit", "10;10;walk"],
        ["0\t10\tsit", "10\t20\twalk"],
        ["time,text", "0,sit", "10,walk"],
        ["0,sit", "10,walk"],
        ["start_ms,end_ms,label", "0,10000,sit", "10000,20000,walk"],
        ["start (min),end (min),label", "0,0.16666667,sit", "0.16666667,1,walk"],
        ["from,to,label", "00:00:00,00:00:10.0,sit", "00:00:10,00:01:00,walk"],
        ["label,start,end,user"]
        + [f"{each},{who}" for who in ("anna", "ben") for each in ("sit,0,10", "walk,10,20")],
        [
            "file,start,end,label",
            "anna.csv,0,10,sit",
            "anna,10,20,walk",
            "data/ben.csv,0,10,sit",
            "ben,10,20,walk",
        ],
        ["start,end,label", "0,6,sit", "5,10,sit", "10,20,walk"],
    ],
)
def test_forms_of_a_file(tmp_path: Path, lines: list[str]) -> None:
    by_intervals(tmp_path, lines)
    assert classes(tmp_path / "out") == {"anna": HALVES, "ben": HALVES}


@pytest.mark.parametrize("by_name", [False, True])
def test_json(tmp_path: Path, by_name: bool) -> None:
    own = [{"start": 0, "end": 10, "label": "sit"}, {"start": 10, "end": 20, "label": "walk"}]
    held = {"anna": own, "ben": own[:1]} if by_name else {"annotations": own}
    (tmp_path / "labels.json").write_text(json.dumps(held), "utf-8")
    data = recordings(tmp_path / "data")
    imported(data, tmp_path / "out", intervals=str(tmp_path / "labels.json"))
    assert classes(tmp_path / "out") == {"anna": HALVES, "ben": HALVES[:5] if by_name else HALVES}


def test_dates_in_the_file_and_milliseconds_in_the_recordings(tmp_path: Path) -> None:
    data = recordings(tmp_path / "data", start=DATED, unit=1e-3)
    lines = ["start,end,label", "2024-01-02 03:04:05,2024-01-02T03:04:15Z,sit"]
    lines += ["2024-01-02 03:04:15,2024-01-02 03:05:00,walk"]
    file = written(tmp_path / "labels.csv", lines)
    imported(data, tmp_path / "out", intervals=str(file))
    assert classes(tmp_path / "out")["ben"] == HALVES


def test_times_of_the_recording_itself_and_from_its_first_row(tmp_path: Path) -> None:
    data = recordings(tmp_path / "data", start=5000, unit=1e-3)
    own = written(
        tmp_path / "a.csv", ["start,end,label", "5000000,5010000,sit", "5010000,5020000,walk"]
    )
    imported(data, tmp_path / "1", intervals=str(own), time_unit="ms")
    relative = written(tmp_path / "b.csv", SIT_WALK)
    made = imported(data, tmp_path / "2", intervals=str(relative), time_unit="ms")
    assert classes(tmp_path / "1") == classes(tmp_path / "2") == {"anna": HALVES, "ben": HALVES}
    assert any("count from the first row of each recording" in note for note in made.notes)
    data = recordings(tmp_path / "dated", start=DATED)
    imported(data, tmp_path / "3", intervals=str(relative))
    assert classes(tmp_path / "3")["anna"] == HALVES


def test_files_by_name_of_person_and_recording(tmp_path: Path) -> None:
    data = recordings(tmp_path / "data", ["anna/r1", "anna/r2", "ben/r1"])
    for folder, name, label in (
        ("anna", "r1", "sit"),
        ("anna", "r2", "walk"),
        ("ben", "r1", "walk"),
    ):
        written(tmp_path / "data" / folder / f"{name}_labels.csv", ["0,20," + label])
    made = imported(
        data,
        tmp_path / "out",
        from_name="(?P<subject>[a-z]+)/",
        overlapping="behind",
        intervals=str(data / "*" / "*_labels.csv"),
    )
    # r1 is the name of two recordings; their folders' names tell them apart
    assert classes(tmp_path / "out") == {"anna": ["sit"] * 10 + ["walk"] * 10, "ben": ["walk"] * 10}
    assert made.people == 2


def test_bare_marks_beside_each_recording(tmp_path: Path) -> None:
    for name, first in (("anna", 2), ("ben", 4)):
        recordings(tmp_path / "data" / name, ["acc"], start=DATED)
        lines = [
            f"{DATED + first:.2f}",
            f"{DATED + 10:.2f}",
            f"{DATED + 12}.00",
            f"{DATED + 20:.2f}",
        ]
        written(tmp_path / "data" / name / "tags.csv", lines)
    options: dict[str, object] = {"intervals": "tags.csv", "from_name": "([a-z]+)/"}
    imported(tmp_path / "data", tmp_path / "out", marks="sit,-,walk", **options)
    assert classes(tmp_path / "out") == {
        "anna": ["sit"] * 4 + ["walk"] * 4,
        "ben": ["sit"] * 3 + ["walk"] * 4,
    }
    with refused(DataError, "4 bare marks", "--marks", got="4", expected="classes"):
        imported(tmp_path / "data", tmp_path / "other", **options)
    with refused(DataError, "tags.csv", got="4 marks", expected=3):
        imported(tmp_path / "data", tmp_path / "other", marks="sit,walk", **options)
    (tmp_path / "data" / "ben" / "tags.csv").write_text("")
    made = imported(tmp_path / "data", tmp_path / "third", marks="sit,-,walk", **options)
    assert any("Recordings without an interval: acc.csv" in note for note in made.notes)
    assert made.people == 1


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["start,end,label", "0,11,sit", "10,20,walk"], ["line 2", "line 3", "overlap", "'sit'"]),
        (["start,end,label", "0,10,sit", "12,10,walk"], ["line 3", "from 12 to 10"]),
        (["start,end,label", "5,5,sit"], ["line 2", "behind its start"]),
        (["start,end", "5,6"], ["start, end", "label"]),
        (["a,b,c,d", "1,2,3,4"], ["a, b, c, d", "label"]),
        (["1,2,3,4", "1,2,3,4"], ["4 columns without names"]),
        (["start,end,label", "1,2,sit", "3,walk"], ["line 3", "2 columns"]),
        (["start,end,label", "1,later,sit"], ["line 2", "'later'", "number"]),
        (["start,end,label", "1,2,sit", "00:00:03,4,sit"], ["line 3", "number"]),
        (["start,end,label", "100000,200000,sit"], ["line 2", "--intervals-unit", "recorded"]),
        (["start,end,label,user", "0,10,sit,Anna"], ["'Anna'", "nobody", "'anna'"]),
        (["start,end,label", "2024-01-02 03:04,2024-01-02 03:05,sit"], ["dates", "since 1970"]),
        (["start,end,label", "01/02/2024 10:00,01/02/2024 11:00,sit"], ["--dates"]),
        (["start,label,label", "0,a,b"], ["'label' twice"]),
    ],
)
def test_refused(tmp_path: Path, lines: list[str], words: list[str]) -> None:
    with refused(DataError, *words):
        by_intervals(tmp_path, lines)
    assert not (tmp_path / "out").exists()


def test_a_class_twice_and_no_time_are_refused(tmp_path: Path) -> None:
    with refused(ConfigError, "intervals", got="labels.csv", expected="one of them"):
        by_intervals(tmp_path, SIT_WALK, label="state")
    with refused(ConfigError, "marks", expected="both"):
        ImportOptions(marks="a,b")
    with refused(ConfigError, "intervals", "--time", expected="a column of time"):
        by_intervals(tmp_path, SIT_WALK, time="none", rate=10.0)
    with refused(DataError, "intervals alone", expected="recordings"):
        imported(tmp_path / "labels.csv", tmp_path / "x", intervals=str(tmp_path / "labels.csv"))
    with refused(DataError, got="'tags.csv'", expected="pattern"):
        imported(tmp_path / "data", tmp_path / "x", intervals="tags.csv")


def test_a_name_of_two_recordings_is_refused(tmp_path: Path) -> None:
    data = recordings(tmp_path / "data", ["anna/r1", "ben/r1"])
    lines = ["recording,start,end,label", "r1,0,10,sit", "ben/r1,10,20,walk"]
    file = written(tmp_path / "labels.csv", lines)
    options: dict[str, object] = {"from_name": "([a-z]+)/", "intervals": str(file)}
    with refused(DataError, "line 2", "'r1'", "anna", "ben", expected="one"):
        imported(data, tmp_path / "out", **options)


def test_a_frame(tmp_path: Path) -> None:
    import pandas as pd

    frames = [
        pd.read_csv(recordings(tmp_path) / f"{name}.csv").assign(user=name)
        for name in ("anna", "ben")
    ]
    file = written(tmp_path / "labels.tsv", SIT_WALK)
    made = fedsub.federation(
        pd.concat(frames, ignore_index=True), window="2s", overlap=0, intervals=str(file)
    )
    assert made.card.classes == ("sit", "walk")
    assert {name: data.y.tolist() for name, data in made.clients.items()} == {
        "anna": [0] * 5 + [1] * 5,
        "ben": [0] * 5 + [1] * 5,
    }


def test_dates_in_the_zone_that_is_given(tmp_path: Path) -> None:
    data = recordings(tmp_path / "data", start=DATED)
    rows = ["2024-01-02 04:04:05,2024-01-02 04:04:15,sit"]
    rows += ["2024-01-02 03:04:15Z,2024-01-02 04:05,walk"]
    lines = ["start,end,label", *rows]
    file = written(tmp_path / "labels.csv", lines)
    imported(data, tmp_path / "out", intervals=str(file), timezone="Europe/Berlin")
    assert classes(tmp_path / "out") == {"anna": HALVES, "ben": HALVES}
    written(file, ["start,end,label", "2024-03-31 02:10:00,2024-03-31 03:10:00,sit"])
    with refused(DataError, "line 2", "does not have this time", "--timezone"):
        imported(data, tmp_path / "other", intervals=str(file), timezone="Europe/Berlin")
