"""Sensors of one recording with files of their own, joined on time."""

import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.samples import Imported
from tests.fedsub_data.importing import made_loggers
from tests.fedsub_data.importing.made_loggers import phyphox, table, times, values, written
from tests.fedsub_data.importing.made_tables import imported

PEOPLE = ["anna_walk", "anna_sit", "ben_walk", "ben_sit"]
NAMES = r"(?P<subject>[a-z]+)_(?P<label>[a-z]+)"
GYRO = '"Time (s)","X (rad/s)","Y (rad/s)","Z (rad/s)"'


def joined(tmp_path: Path, **given: object) -> Imported:
    """Import the recordings of phyphox that lie in the folder ``data``."""
    return imported(tmp_path / "data", tmp_path / "out", **({"from_name": NAMES} | given))


def gyroscope(folder: Path, t: made_loggers.Array, name: str = "Gyroscope") -> Path:
    """Write a gyroscope's file with rows at some times, s."""
    return table(folder / f"{name}.csv", [GYRO], np.column_stack([t, values("gyro", t)]))


def test_a_slower_sensor_is_interpolated_and_it_is_said(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    made = joined(tmp_path)
    x = read_federation(tmp_path / "out").clients["anna"].x
    assert x.shape[1] == 9
    np.testing.assert_allclose(x[:, 3], 10 * x[:, 0], atol=1e-3)
    assert "Joined on time: acc, gyro, mag, in 4 recordings." in made.notes
    for sensor, share in (("gyro", "50 %"), ("mag", "80 %")):
        assert any(
            note.startswith(f"{sensor} is taken at the times of acc in 4 recordings")
            and f"{share} of points are interpolated" in note
            for note in made.notes
        )
    assert any("Left out, as they are no signals of phyphox: device.csv" in n for n in made.notes)
    assert "units = " in (tmp_path / "out" / "federation.toml").read_text("utf-8")


def test_no_point_is_made_up_in_a_gap(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    t = times(25)
    t = t[(t < 4) | (t >= 8)]
    table(
        tmp_path / "data" / "ben_sit" / "Gyroscope.csv",
        [GYRO],
        np.column_stack([t, values("gyro", t)]),
    )
    made = joined(tmp_path)
    lost = sum(3.96 < s < 8 for s in times(50))
    # ... and one row of each recording behind the gyroscope's last one
    note = (
        f"Left out: {lost + 4} rows at whose time gyro has a gap or no rows: ben_sit ({lost + 1})"
    )
    assert any(each.startswith(note) for each in made.notes), made.notes
    people = read_federation(tmp_path / "out").clients
    assert len(people["ben"].y) < len(people["anna"].y)


def test_a_gap_that_is_given_counts_in_seconds(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    t = times(25)
    t = t[(t < 4) | (t >= 8)]
    table(
        tmp_path / "data" / "ben_sit" / "Gyroscope.csv",
        [GYRO],
        np.column_stack([t, values("gyro", t)]),
    )
    joined(tmp_path, gap="5s")
    people = read_federation(tmp_path / "out").clients
    assert len(people["ben"].y) == len(people["anna"].y)


def test_a_sensor_that_shares_no_time_is_refused(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    t = times(25)
    path = tmp_path / "data" / "ben_sit" / "Gyroscope.csv"
    table(path, [GYRO], np.column_stack([t + 500, values("gyro", t)]))
    with refused(DataError, "ben_sit", "gyro from 500 to", str(path), "--sensors", got="no time"):
        joined(tmp_path)
    assert not (tmp_path / "out").exists()
    made = joined(tmp_path, sensors="acc,mag")
    assert made.card.features == ("acc_x", "acc_y", "acc_z", "mag_x", "mag_y", "mag_z")


@pytest.mark.parametrize("text", ["", GYRO + "\n"])
def test_an_empty_file_of_one_sensor(tmp_path: Path, text: str) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    (tmp_path / "data" / "ben_sit" / "Gyroscope.csv").write_text(text)
    with refused(DataError, "ben_sit", "'gyro'", "--sensors acc,mag", got="an empty file"):
        joined(tmp_path)
    (tmp_path / "data" / "ben_sit" / "Gyroscope.csv").unlink()
    with refused(DataError, "ben_sit", "'gyro'", "--sensors acc,mag", got="no file"):
        joined(tmp_path)
    for name in PEOPLE:
        (tmp_path / "data" / name / "Gyroscope.csv").write_text(text)
    made = joined(tmp_path)
    assert "Left out, as its files are empty: gyro." in made.notes


def test_faults_in_a_sensors_file_are_named_with_their_line(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    path = tmp_path / "data" / "anna_walk" / "Gyroscope.csv"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:5], "0.16,error,1,2", *lines[6:]]), "utf-8")
    with refused(DataError, f"{path}, line 6", "'gyro_x'", got="'error'", expected="numbers"):
        joined(tmp_path)
    made = imported(tmp_path / "data", tmp_path / "text", from_name=NAMES, not_numbers="drop")
    assert any("Dropped 1 rows with text" in note for note in made.notes)
    path.write_text("\n".join([*lines[:5], lines[4], *lines[5:]]), "utf-8")
    made = imported(tmp_path / "data", tmp_path / "twice", from_name=NAMES)
    assert any("1 rows that repeat a time" in note for note in made.notes)
    path.write_text("\n".join([*lines[:5], *lines[5:9][::-1], *lines[9:]]), "utf-8")
    with refused(DataError, str(path), "--backwards"):
        imported(tmp_path / "data", tmp_path / "back", from_name=NAMES)
    imported(tmp_path / "data", tmp_path / "sorted", from_name=NAMES, backwards="sort")


def test_sensors_by_the_names_of_files(tmp_path: Path) -> None:
    for name in PEOPLE:
        for sensor, rate in (("acc", 50), ("gyro", 25)):
            t = times(rate)
            path = tmp_path / "data" / f"{name}_{sensor}.csv"
            table(path, ["time,x,y,z"], np.column_stack([t, values(sensor, t)]))
    pattern = NAMES + "_(?P<sensor>acc|gyro)"
    for number, given in enumerate((pattern, "")):
        made = imported(tmp_path / "data", tmp_path / f"{number}", from_name=given)
        assert made.card.features == ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
        x = read_federation(tmp_path / f"{number}").clients["anna"].x
        np.testing.assert_allclose(x[:, 3], 10 * x[:, 0], atol=1e-3)


def test_a_column_of_classes_in_one_sensors_file(tmp_path: Path) -> None:
    for name in ("anna", "ben"):
        t = times(50)
        rows = [
            f"{a:.3f},{a:.3f},0.5,9.{i % 7},{'sit' if a < 10 else 'walk'}" for i, a in enumerate(t)
        ]
        table(tmp_path / "data" / f"{name}_acc.csv", ["time,x,y,z,state", *rows], np.zeros((0, 5)))
        t = times(20)
        table(
            tmp_path / "data" / f"{name}_gyro.csv",
            ["time,x,y,z"],
            np.column_stack([t, values("gyro", t)]),
        )
    imported(
        tmp_path / "data", tmp_path / "out", from_name="(?P<subject>[a-z]+)_(?P<sensor>[a-z]+)"
    )
    anna = read_federation(tmp_path / "out")
    assert [anna.card.classes[y] for y in anna.clients["anna"].y] == ["sit"] * 5 + ["walk"] * 4


def test_zips_of_recordings(tmp_path: Path) -> None:
    (tmp_path / "zips").mkdir()
    for name in PEOPLE:
        phyphox(tmp_path / "data" / name)
        with zipfile.ZipFile(tmp_path / "zips" / f"{name}.zip", "w") as packed:
            for path in sorted((tmp_path / "data" / name).rglob("*.csv")):
                packed.write(path, path.relative_to(tmp_path / "data" / name))
    joined(tmp_path)
    imported(tmp_path / "zips", tmp_path / "packed", from_name=NAMES)
    one, other = (read_federation(tmp_path / name) for name in ("out", "packed"))
    for person in one.clients:
        np.testing.assert_array_equal(one.clients[person].x, other.clients[person].x)


def test_a_second_file_of_a_sensor_and_a_grown_file_are_refused(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    other = tmp_path / "data" / "ben_sit" / "Raw Data.csv"
    other.write_bytes((other.parent / "Accelerometer.csv").read_bytes())
    with refused(DataError, "Raw Data.csv", "Accelerometer.csv", got="a second file"):
        joined(tmp_path)
    other.unlink()
    grown, ended = other.parent / "Magnetometer.csv", threading.Event()

    def grow() -> None:
        while not ended.wait(0.002):
            with grown.open("a") as file:
                file.write("19.9,1,2,3\n")
                os.fsync(file.fileno())

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        with refused(DataError, str(grown), expected="stays as it is"):
            joined(tmp_path)
    finally:
        ended.set()
        thread.join()


def test_a_recording_shorter_than_a_window_is_named(tmp_path: Path) -> None:
    written("phyphox", tmp_path / "data", PEOPLE)
    gyroscope(tmp_path / "data" / "ben_sit", times(25, 1))
    made = joined(tmp_path)
    assert any("too few for a window" in line for line in made.dropped.sentences())


def test_the_names_differ_in_case_alone(tmp_path: Path) -> None:
    made_loggers.written(
        "phyphox", tmp_path / "data", ["anna_walk", "Anna_sit", "ben_walk", "ben_sit"]
    )
    made = joined(tmp_path, from_name="(?i)(?P<subject>[a-z]+)_(?P<label>[a-z]+)")
    assert any("differ in case" in note and "'Anna'" in note for note in made.notes)
