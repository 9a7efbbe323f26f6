"""Recordings as a phone writes them, a file for each sensor, answered as an import reads them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsub.api.models import PersonModel
from fedsub.testing.refusals import refused
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import DataError

from .made_recordings import made_frame, made_model


def write(frame: pd.DataFrame, file: Path, unit: str) -> None:
    named = frame.set_axis(["Time (s)", *(f"{axis} ({unit})" for axis in "XYZ")], axis=1)
    file.parent.mkdir(exist_ok=True, parents=True)
    named.to_csv(file, index=False)


@pytest.fixture
def model() -> PersonalModel:
    return made_model()


def test_the_sensors_of_a_recording_are_joined(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Of a phone's folder; a model of one of its sensors leaves the other out."""
    frame = made_frame(rng)
    for name in ("walk", "evening"):
        write(frame, tmp_path / name / "Accelerometer.csv", "m/s^2")
        write(frame, tmp_path / name / "Gyroscope.csv", "rad/s")
    plain = PersonModel(model).predict_recording(frame)
    answers = PersonModel(model).predict_recording(tmp_path / "walk")
    assert answers["recording"].unique().tolist() == ["walk"]
    assert answers["class"].tolist() == plain["class"].tolist()
    assert any("phyphox" in note for note in answers.attrs["notes"])
    both = PersonModel(model).predict_recording(tmp_path)
    assert both["recording"].unique().tolist() == ["evening", "walk"]
    assert both["class"].tolist() == 2 * plain["class"].tolist()


def test_a_sensor_that_lacks_or_shares_no_time_is_refused(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    names = ("acc_x", "gyro_y", "gyro_z")
    own = PersonModel(replace(model, card=replace(model.card, features=names, units="")))
    frame, folder = made_frame(rng), tmp_path / "walk"
    write(frame, folder / "Accelerometer.csv", "m/s^2")
    with refused(DataError, str(folder), got="columns acc_x", expected="gyro_y, gyro_z"):
        own.predict_recording(folder)
    write(frame.assign(time=frame["time"] + 1e4), folder / "Gyroscope.csv", "rad/s")
    with refused(DataError, str(folder), got="share no time"):
        own.predict_recording(folder)
    write(frame, folder / "Gyroscope.csv", "rad/s")
    assert len(own.predict_recording(folder)) == 99
