"""Layouts of loggers: guessed, named, of one's own, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.layout import layout_names, read_layout
from tests.fedsub_data.importing import made_loggers
from tests.fedsub_data.importing.made_loggers import SLOPES, WRITERS, written
from tests.fedsub_data.importing.made_tables import imported

PEOPLE = ["anna_walk", "anna_sit", "ben_walk", "ben_sit"]
NAMES = r"(?P<subject>[a-z]+)_(?P<label>[a-z]+)"
#: The rate of each logger's fastest sensor that is used.
FASTEST = {"empatica-e4": 64.0, "actigraph": 30.0}
#: A column of each logger that its layout does not use.
HIDDEN = {
    "sensor-logger": "'seconds_elapsed'",
    "shimmer": "'Shimmer_A1B2_Battery_CAL'",
    "androsensor": "'SOUND LEVEL (dB)'",
    "actigraph": "'Timestamp'",
}


@pytest.mark.parametrize("logger", WRITERS)
def test_a_layout_is_guessed_and_read(logger: str, tmp_path: Path) -> None:
    data = written(logger, tmp_path / "data", PEOPLE)
    made = imported(data, tmp_path / "out", from_name=NAMES, dates="month-first")
    assert any(f"Guessed: --layout {logger}," in note for note in made.notes), made.notes
    if logger in HIDDEN:
        note = f"Left out, as the layout does not use them: {HIDDEN[logger]}"
        assert any(each.startswith(note) for each in made.notes), made.notes
    federation = read_federation(tmp_path / "out")
    assert federation.card.classes == ("sit", "walk")
    assert set(federation.clients) == {"anna", "ben"}
    assert federation.card.sampling_rate_hz == FASTEST.get(logger, 50.0)
    assert federation.card.features[:2] == ("acc_x", "acc_y")
    # the first axis of each sensor is a line in time: rows of one time stand beside one another
    x = federation.clients["ben"].x
    for i, name in enumerate(federation.card.features):
        sensor = name.removesuffix("_x")
        if sensor in SLOPES and name.endswith("_x"):
            np.testing.assert_allclose(x[:, i] / SLOPES[sensor], x[:, 0], atol=2e-2)


def test_all_layouts_have_a_test() -> None:
    assert layout_names() == sorted(WRITERS)


def test_an_actigraph_without_times_and_names_of_columns(tmp_path: Path) -> None:
    for name in PEOPLE:
        made_loggers.actigraph(tmp_path / "data" / f"{name}.csv", timed=False, first="d/M/yyyy")
    made = imported(tmp_path / "data", tmp_path / "out", from_name=NAMES)
    assert any("--layout actigraph" in note for note in made.notes)
    federation = read_federation(tmp_path / "out")
    assert federation.card.sampling_rate_hz == 30
    times = federation.clients["anna"].t
    assert times is not None and times.min() == made_loggers.START


def test_the_marks_of_an_e4(tmp_path: Path) -> None:
    for name in ("anna", "ben"):
        made_loggers.empatica(tmp_path / "data" / name)
    made = imported(tmp_path / "data", tmp_path / "out", intervals="tags.csv", marks="sit,walk")
    federation = read_federation(tmp_path / "out")
    assert federation.card.features == ("acc_x", "acc_y", "acc_z", "bvp", "eda", "temp")
    anna = federation.clients["anna"]
    assert [federation.card.classes[y] for y in anna.y] == ["sit"] * 5 + ["walk"] * 4
    assert np.abs(anna.x[:, 0] - anna.x[:, 3]).max() < 0.02  # g, at the times of the pulse
    assert any("eda is taken at the times of bvp" in note and "94 %" in note for note in made.notes)
    assert any("unless --sensors names it: hr" in note for note in made.notes)


def test_annotations_of_sensor_logger(tmp_path: Path) -> None:
    for name in ("anna", "ben"):
        made_loggers.sensor_logger(tmp_path / "data" / name)
    imported(tmp_path / "data", tmp_path / "out", intervals="Annotation.csv")
    federation = read_federation(tmp_path / "out")
    classes = [federation.card.classes[y] for y in federation.clients["ben"].y]
    assert classes == ["sit"] * 5 + ["walk"] * 4  # the magnetometer ends before the last window


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "your-data.md").read_text("utf-8")
(OWN,) = re.findall(r"```toml\n(title.+?)```", PAGE, re.DOTALL)


def own(folder: Path) -> Path:
    """Write recordings of a logger that no layout knows."""
    for name in PEOPLE:
        t = made_loggers.times(50)
        rows = np.column_stack([t * 1000, 1000 * made_loggers.values("acc", t)])
        head = ["ms since boot;eins;zwei;drei neu"]
        made_loggers.table(folder / name / "motion_1.csv", head, rows, mark=";")
        rows = np.column_stack([t[::10] * 1000, t[::10]])
        made_loggers.table(folder / name / "Pulse.csv", ["ms since boot;wert"], rows, mark=";")
        made_loggers.table(folder / name / "settings.csv", ["key;value"], np.zeros((0, 2)))
    return folder


def test_a_layout_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN, "utf-8")
    layout = str(tmp_path / "mine.toml")
    imported(own(tmp_path / "data"), tmp_path / "out", layout=layout, from_name=NAMES)
    federation = read_federation(tmp_path / "out")
    assert federation.card.features == ("acc_x", "acc_y", "acc_z", "pulse")
    x = federation.clients["anna"].x
    np.testing.assert_allclose(x[:, 0], x[:, 3], atol=1e-3)


@pytest.mark.parametrize(
    ("line", "other", "words"),
    [
        ('recording = "folder"', 'recording = "box"', ["recording", "'box'"]),
        ('files = ["pulse.csv"]', 'file = ["pulse.csv"]', ["sensor.pulse.file", "'files'"]),
        ('time_unit = "ms"', 'time_unit = "hour"', ["sensor.acc.time_unit", "'hour'"]),
        ("time = 'ms since boot'", "", ["sensor.acc", "time"]),
        ('"eins"', '"(eins"', ["acc_x", "regular expression"]),
        ("[sensor.acc]", "[sensor.acc", ["TOML"]),
        ('recording = "folder"', 'recording = "file"', ["2 sensors"]),
        ("columns = { pulse", "head = { line = 2 }\ncolumns = { pulse", ["head.line", "'lines'"]),
    ],
)
def test_a_layout_that_is_none_is_refused(
    tmp_path: Path, line: str, other: str, words: list[str]
) -> None:
    (tmp_path / "mine.toml").write_text(OWN.replace(line, other, 1), "utf-8")
    with refused(DataError, "mine.toml", *words):
        read_layout(str(tmp_path / "mine.toml"))


def test_unknown_layouts_and_sensors_are_refused(tmp_path: Path) -> None:
    data = written("phyphox", tmp_path / "data", PEOPLE)
    with refused(ConfigError, "'phyphox'", got="'phyfox'", expected="actigraph"):
        imported(data, tmp_path / "out", layout="phyfox")
    with refused(DataError, "sensors", got="'gyros'"):
        imported(data, tmp_path / "out", sensors="acc,gyros", from_name=NAMES)
    with refused(DataError, "Empatica", got="no file", expected="ACC.csv"):
        imported(data, tmp_path / "out", layout="empatica-e4", from_name=NAMES)
    with refused(ConfigError, got="a column", expected="names of recordings"):
        imported(data, tmp_path / "out", subject="user")


def test_columns_in_ones_own_words_need_no_layout(tmp_path: Path) -> None:
    data = written("androsensor", tmp_path / "data", PEOPLE)
    columns = "ACCELEROMETER X (m/s²),ACCELEROMETER Y (m/s²)"
    made = imported(data, tmp_path / "out", from_name=NAMES, features=columns,
                    time="Time since start in ms")  # fmt: skip
    assert not any("--layout" in note for note in made.notes)
