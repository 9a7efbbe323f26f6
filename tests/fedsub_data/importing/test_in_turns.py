"""Two devices' rows in one table are not one recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Why

from .made_tables import imported, lines, written


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
    with refused(DataError, "column 'device'", got=[f"'{code}'" for code in codes]):
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
    with refused(DataError, "line 3", "column 'time'", 120, "--duplicates keep"):
        imported(path, tmp_path / "out")
    dropped = imported(path, tmp_path / "drop", duplicates="drop").dropped
    assert dropped.counts[Why.REPEATED] == dict.fromkeys(("01", "02", "03"), 120)
    # The same rows twice are an export's fault, and one is enough.
    twice = [text[0], *np.repeat(lines()[1:], 2).tolist()]
    made = imported(written(tmp_path / "b.csv", twice), tmp_path / "twice")
    assert made.dropped.counts[Why.REPEATED] == dict.fromkeys(("01", "02", "03"), 120)
