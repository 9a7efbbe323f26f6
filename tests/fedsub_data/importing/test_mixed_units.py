"""Units and signs, sensor by sensor: who differs is refused or converted, who moves less is not."""

from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.cover import turns
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.sensors import sensors

from .made_tables import imported
from .ways_in import Recordings, recordings, write

ACCELEROMETER, GYROSCOPE, ALL = slice(0, 3), slice(3, 6), slice(0, 6)
#: Names that say what a sensor is, and names that say nothing.
NAMES = (
    "acc_x,acc_y,acc_z,gyro_x,gyro_y,gyro_z",
    "ax,ay,az,gx,gy,gz",
    "s1,s2,s3,s4,s5,s6",
    "x,y,z,gx,gy,gz",
)
G, DEGREES = 9.80665, 180 / np.pi


def scale(made: Recordings, which: slice, times: float, *people: str) -> None:
    """Multiply some features of some people."""
    for person in people:
        for name in list(made[person])[1:-1][which]:
            made[person][name] *= np.float32(times)


def came(made: Recordings, folder: Path, **options: object) -> dict[str, np.ndarray]:
    """Return the samples by person that come of a CSV for each."""
    imported(write(made, "csv", folder / "files"), folder / "out", window="1s", **options)
    return {name: data.x for name, data in read_federation(folder / "out").clients.items()}


UNITS = (
    (ACCELEROMETER, 1 / G, r"g and m/s\^2.*--convert g or --convert m/s\^2 converts"),
    (ACCELEROMETER, -1.0, "points the other way.*--convert as:k"),
    (GYROSCOPE, DEGREES, "radians and degrees.*--convert rad or --convert deg converts"),
)


@pytest.mark.parametrize(
    ("names", "who", "unit"),
    turns(NAMES, [(6, ["k1"]), (6, ["k2", "k4", "k6"]), (2, ["k2"])], UNITS),
)
def test_one_sensor_in_another_unit_is_refused(
    tmp_path: Path,
    names: str,
    who: tuple[int, list[str]],
    unit: tuple[slice, float, str],
) -> None:
    (people, differ), (which, times, words) = who, unit
    made = recordings(people, names)
    scale(made, which, times, *differ)
    with pytest.raises(DataError, match=words):
        came(made, tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_people_and_sensors_differ_as_they_do(tmp_path: Path, seed: int) -> None:
    """Somebody moves a tenth as much, sensors have another noise, features are no sensors."""
    made = recordings(4, "acc_x,acc_y,acc_z,gyro_x,gyro_y,gyro_z", seed)
    rng = np.random.default_rng(seed)
    for person, noise in zip(made, (0, 0.001, 0.02, 0.05), strict=True):
        columns = made[person]
        for name in list(columns)[1:-1]:
            columns[name] += rng.normal(0, noise, len(columns[name])).astype(np.float32)
        scale(made, GYROSCOPE, 0.1 if person == "k2" else 1.0, person)
        columns["eda"] = np.full(300, rng.lognormal(0, 2), np.float32)
        columns["bvp"] = rng.normal(0, rng.lognormal(3, 1), 300).astype(np.float32)
        columns["activity"] = columns.pop("activity")
    assert len(came(made, tmp_path)) == 4


def test_people_of_other_classes_show_no_unit(tmp_path: Path) -> None:
    """Somebody only runs, others only sit: without gravity that is as far apart as units are."""
    made = recordings(6)
    for i, columns in enumerate(made.values()):
        for axis, gravity in zip("xyz", (9.8, 0.3, 0.5), strict=True):
            columns[f"acc_{axis}"] -= np.float32(gravity)
        sits = columns["activity"] == "sit"
        for name in list(columns)[1:-1]:
            columns[name] = np.where(sits, columns[name], columns[name] * (1 + i))[sits == (i < 3)]
        columns["activity"] = columns["activity"][sits == (i < 3)]
        columns["time"] = columns["time"][sits == (i < 3)]
    made["k6"]["activity"][:] = "run"
    assert len(came(made, tmp_path)) == 6
    scale(made, GYROSCOPE, DEGREES, "k2")  # k2 sits as k1 and k3 do
    with pytest.raises(DataError, match=r"^person 'k2', columns 'gyro_x'"):
        came(made, tmp_path / "deg")


def test_a_phone_that_is_carried_as_one_likes_has_no_sign(tmp_path: Path) -> None:
    made = recordings(4)
    for turn, columns in enumerate(made.values()):
        x, y, z = (columns[f"acc_{axis}"].copy() for axis in "xyz")
        columns["acc_x"], columns["acc_y"], columns["acc_z"] = (
            [x, y, z], [-x, y, z], [y, x, z], [z, y, -x]
        )[turn]  # fmt: skip
    assert len(came(made, tmp_path)) == 4


def test_three_units_in_one_federation(tmp_path: Path) -> None:
    """g and m/s^2 and thousandths of g: all to g."""
    made = recordings(5)
    expected = came(recordings(5), tmp_path / "right")
    scale(made, ACCELEROMETER, 1 / G, "k2")
    scale(made, ACCELEROMETER, 1e3 / G, "k3")
    found = came(made, tmp_path / "g", convert="g")
    for person, x in found.items():
        np.testing.assert_allclose(x[:, :3], expected[person][:, :3] / G, rtol=1e-3, atol=1e-3)


def test_thousandths_of_any_quantity(tmp_path: Path) -> None:
    made = recordings(4, "eda,hr,resp,bvp,temp,skin")
    scale(made, slice(0, 1), 1e3, "k3")
    with refused(DataError, "'k3'", "column 'eda'", "thousandth", "--convert as:k1"):
        came(made, tmp_path)
    found = came(made, tmp_path, convert="as:k3")
    assert found["k1"][:, 0].mean() == pytest.approx(9800, rel=0.05)


def test_half_is_like_the_person_who_is_named(tmp_path: Path) -> None:
    made = recordings(2)
    scale(made, ALL, 1e3, "k2")
    for name, size in (("k1", 9.8), ("k2", 9800.0)):
        found = came(made, tmp_path / name, convert=f"as:{name}")
        assert all(x[:, 0].mean() == pytest.approx(size, rel=0.05) for x in found.values())


def test_what_is_left_is_refused_and_no_option_is_advised_twice(tmp_path: Path) -> None:
    made = recordings(4)
    scale(made, ACCELEROMETER, 1 / G, "k2")
    scale(made, ACCELEROMETER, -1, "k3")
    with pytest.raises(DataError, match=r"--convert g,as:k1 or --convert m/s.2,as:k1 converts"):
        came(made, tmp_path)
    with pytest.raises(DataError, match=r"^person 'k3'.*--convert g,as:k1 converts"):
        came(made, tmp_path, convert="g")
    assert len(came(made, tmp_path, convert="g,as:k1")) == 4


def test_what_no_factor_converts_is_refused(tmp_path: Path) -> None:
    made = recordings(4)
    for columns in made.values():
        columns["acc_var"] = columns["acc_x"] ** 2
        columns["activity"] = columns.pop("activity")
    scale(made, ACCELEROMETER, 1 / G, "k2")
    with refused(DataError, "convert", "column 'acc_var'", got="g"):
        came(made, tmp_path, convert="g")


def test_nothing_to_convert_is_said(tmp_path: Path) -> None:
    made = imported(write(recordings(), "csv", tmp_path), tmp_path / "out", convert="g,deg")
    assert [note for note in made.notes if "onvert" in note] == [
        f"Nothing to convert by --convert {unit}: no person's numbers differ so."
        for unit in ("g", "deg")
    ]


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        ("gee", "convert: got 'gee', expected g, m/s.2, deg, rad or as:PERSON"),
        ("g,m/s^2", "convert: got g and m/s.2, expected one"),
        ("as:k1,as:k2", "convert: got as:k1 and as:k2, expected one"),
        ("as:k9", "convert: got as:k9, expected a person who is there, such as as:k1"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(tmp_path: Path, convert: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        came(recordings(), tmp_path, convert=convert)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("ax,ay,az,gx,gy,gz", [("acceleration", "ax ay az"), ("rotation", "gx gy gz")]),
        ("acc_mean,acc_std,acc_var,hr", [("acceleration", "acc_mean acc_std"), ("another", "hr")]),
        ("wristAccX,wristAccY,ankleAccX,ankleAccY",
         [("acceleration", "wristAccX wristAccY"), ("acceleration", "ankleAccX ankleAccY")]),
        ("gx,gy,gz", [("unknown", "gx gy gz")]),
        ("roll,pitch,yaw", [("rotation", "roll pitch yaw")]),
        ("dim1,dim2,dim3,dim4,dim5,dim6", [("unknown", "dim1 dim2 dim3"),
                                           ("unknown", "dim4 dim5 dim6")]),
        ("accuracy,max,min", [("another", "accuracy"), ("unknown", "max min")]),
        ("userAcceleration.x,userAcceleration.y,rotationRate.x,rotationRate.y",
         [("acceleration", "userAcceleration.x userAcceleration.y"),
          ("rotation", "rotationRate.x rotationRate.y")]),
    ],
)  # fmt: skip
def test_columns_of_one_sensor(features: str, expected: list[tuple[str, str]]) -> None:
    names = features.split(",")
    found = [(one.kind.value.split()[0], [names[i] for i in one.columns]) for one in sensors(names)]
    assert found == [(kind, columns.split()) for kind, columns in expected]
