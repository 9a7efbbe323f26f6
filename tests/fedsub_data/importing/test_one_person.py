"""Files of one person's sensors or devices, or of parts of a set, are not taken for people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.devices import check_names
from fedsub_data.importing.options import ImportOptions

from .made_tables import imported, lines, written

EPOCH = 1.76e9


def files(folder: Path, names: list[str], start: float = 0.0, apart: float = 0.0) -> str:
    """A file of each name, of which each begins `apart` s after the one before."""
    rows = [line.split(",") for line in lines(("01",))[1:]]
    for i, name in enumerate(names):
        text = [
            ",".join([state, f"{start + i * apart + float(t):.3f}", f"{float(x) + i:.4f}", y])
            for _, state, t, x, y in rows
        ]
        written(folder / f"{name}.csv", ["activity,time,ax,ay", *text])
    return str(folder / "*.csv")


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["Accelerometer", "Gyroscope"], "sensor"),
        (["ann_acc", "ann_gyro", "bob_acc", "bob_gyro"], "sensor"),
        (["Linear Acceleration", "Gyroscope"], "sensor"),
        (["ann-left-acc", "ann-right-gyr"], "sensor"),
        (["ann_left", "ann_right", "bob"], "device"),
        (["watch_1", "phone_1", "watch_2"], "device"),
        (["ShoreTRAIN", "ShoreTEST"], "part"),
        (["train", "val", "test"], "part"),
    ],
)
def test_files_of_one_person_are_refused(tmp_path: Path, names: list[str], what: str) -> None:
    given = files(tmp_path, names)
    with pytest.raises(DataError, match=f"people .*differ in the {what} alone.*subject-from-name"):
        imported(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert imported(given, tmp_path / "out", subject_from_name="([^.]+)").people == len(names)


@pytest.mark.parametrize(
    "names",
    [
        ["acc_ann", "acc_bob"],
        ["test01", "test02", "train03"],
        ["left", "ann", "bob"],
        ["s1-wrist", "s2-wrist", "s3-hip"],
        ["Light Anna", "Light Ben"],
    ],
)
def test_names_of_people_pass(names: list[str]) -> None:
    check_names(names, ImportOptions())


def test_arrays_by_person_are_held_against_the_same_names() -> None:
    x, y = np.random.default_rng(1).normal(size=(20, 3)), np.arange(20) % 2
    with refused(DataError, "people 'train', 'test'", got="names"):
        fedsub.federation({"train": (x, y), "test": (x, y)})
    frame = pd.DataFrame(x, columns=list("abc")).assign(
        label=y, user=np.where(np.arange(20) < 9, "Watch", "Phone")
    )
    with pytest.raises(DataError, match="people 'Watch', 'Phone'"):
        fedsub.federation(frame)
    assert len(fedsub.federation(frame, subject="user").clients) == 2


def test_sensors_of_one_person_are_no_recordings(tmp_path: Path) -> None:
    given = files(tmp_path, ["ann_acc", "ann_gyro", "bob_acc"], EPOCH)
    with refused(DataError, "'ann'", "ann_acc.csv", "ann_gyro.csv"):
        imported(given, tmp_path / "out", subject_from_name="(.+)_")
    made = imported(given, tmp_path / "out", subject_from_name="(.+)_", overlapping="together")
    assert made.people == 2


@pytest.mark.parametrize(
    ("start", "apart", "named"),
    [(EPOCH, 0.1, True), (EPOCH, 1000.0, False), (0.0, 0.0, False)],
    ids=["at once", "on other days", "from 0"],
)
def test_files_recorded_at_the_same_times_are_named(
    tmp_path: Path, start: float, apart: float, named: bool
) -> None:
    made = imported(files(tmp_path, ["a", "b"], start, apart), tmp_path / "out")
    found = [note for note in made.notes if note.startswith("Recorded at the same times")]
    assert len(found) == named and all("'a', 'b'" in note for note in found)
