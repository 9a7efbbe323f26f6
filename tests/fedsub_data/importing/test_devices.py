"""One person's devices: their files are not taken for people, nor their rows for one recording."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.devices import check_names
from fedsub_data.importing.dropped import Why
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
    with pytest.raises(DataError, match=f"people .*differ in the {what} alone.*from-name"):
        imported(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert imported(given, tmp_path / "out", from_name="([^.]+)").people == len(names)


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
        imported(given, tmp_path / "out", from_name="(.+)_")
    made = imported(given, tmp_path / "out", from_name="(.+)_", overlapping="together")
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


def two_devices(codes: tuple[str, str], late: float, column: str = "device") -> list[str]:
    """Rows of two devices in turns, of which the second is `late` by some s."""
    text = [f"user,activity,time,ax,ay,{column}"]
    for line in lines()[1:]:
        user, state, t, x, y = line.split(",")
        text.append(f"{line},{codes[0]}")
        text.append(f"{user},{state},{float(t) + late:.3f},{float(x) + 1:.4f},{y},{codes[1]}")
    return text


@pytest.mark.parametrize("codes", [("watch", "phone"), ("1", "2")], ids=["words", "numbers"])
@pytest.mark.parametrize("late", [0.0, 0.04])
def test_devices_in_turns_are_refused(tmp_path: Path, codes: tuple[str, str], late: float) -> None:
    path = written(tmp_path / "a.csv", two_devices(codes, late))
    with pytest.raises(
        DataError, match=f"column 'device': got rows of '{codes[0]}' and '{codes[1]}'"
    ):
        imported(path, tmp_path / "out")
    with pytest.raises(DataError, match="column 'device'"):
        fedsub.federation(pd.read_csv(path), window="2s")
    # Each row a sample: nothing is cut of several.
    assert imported(path, tmp_path / "samples", window="none", duplicates="keep").people == 3


@pytest.mark.parametrize("column", ["quality", "device"])
def test_other_columns_and_one_device_after_the_other_pass(tmp_path: Path, column: str) -> None:
    text = two_devices(("a", "b"), 0.05, column)
    if column == "device":
        text = [text[0], *text[1::2]]
    assert imported(written(tmp_path / "a.csv", text), tmp_path / "out").people == 3


@pytest.mark.parametrize("column", ["device_id", "sensorName", "body_position", "Wrist"])
def test_columns_of_devices_have_several_names(tmp_path: Path, column: str) -> None:
    path = written(tmp_path / "a.csv", two_devices(("left", "right"), 0.04, column))
    with pytest.raises(DataError, match=f"column '{column}'"):
        imported(path, tmp_path / "out")


@pytest.mark.parametrize("column", ["sensor1", "sensor_kitchen", "inside_light", "device_battery"])
def test_a_sensor_of_two_values_is_no_device(tmp_path: Path, column: str) -> None:
    """A door's or a lamp's 0 and 1 take turns as devices do."""
    drawn = np.random.default_rng(len(column)).integers(0, 2, len(lines()) - 1)
    text = [f"{line},{one}" for line, one in zip(lines(), [column, *drawn], strict=True)]
    made = imported(written(tmp_path / "a.csv", text), tmp_path / "out")
    assert column in made.card.features


def test_many_rows_of_one_time_with_other_values_are_refused(tmp_path: Path) -> None:
    """Half of the rows would be dropped: they are of a second device, or the clock is coarse."""
    text = [",".join(line.split(",")[:5]) for line in two_devices(("a", "b"), 0.0)]
    path = written(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match=r"line 3, column 'time'.*120 of this.*--duplicates keep"):
        imported(path, tmp_path / "out")
    dropped = imported(path, tmp_path / "drop", duplicates="drop").dropped
    assert dropped.counts[Why.REPEATED] == dict.fromkeys(("01", "02", "03"), 120)
    # The same rows twice are an export's fault, and one is enough.
    twice = [text[0], *np.repeat(lines()[1:], 2).tolist()]
    made = imported(written(tmp_path / "b.csv", twice), tmp_path / "twice")
    assert made.dropped.counts[Why.REPEATED] == dict.fromkeys(("01", "02", "03"), 120)
