"""The unit of a time in numbers: given, by the rate, by size, by name, by steps."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.cover import turns
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.clocks import Clock
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.time_unit import tick_seconds

from .made_tables import as_parquet, imported, lines, written


@pytest.mark.parametrize(
    ("step", "start", "column", "rate", "unit"),
    [
        (0.02, 0.0, "time", 0.0, 1.0),
        (20.0, 0.0, "time", 0.0, 1e-3),
        (20.0, 1.7e12, "time", 0.0, 1e-3),
        (1.0, 1.7e9, "timestamp", 0.0, 1.0),
        (2e4, 0.0, "t", 0.0, 1e-6),
        (2e7, 1.7e18, "t", 0.0, 1e-9),
        (0.02, 0.0, "time_ms", 0.0, 1e-3),
        (2.0, 0.0, "t", 500.0, 1e-3),
        (2.0, 0.0, "t", 0.5, 1.0),
    ],
)
def test_the_unit_of_time_is_guessed(
    step: float, start: float, column: str, rate: float, unit: float
) -> None:
    clocks = {"p": Clock(step, start)}
    between = 1 / rate if rate else None
    found, said = tick_seconds(clocks, column, True, ImportOptions(), between)
    assert found == unit and said.startswith("Guessed: --time-unit")
    assert tick_seconds(clocks, column, False, ImportOptions()) == (1.0, "")


def test_samples_and_windows_may_be_seconds_apart() -> None:
    """A window begins every 2 s, a state is asked every 5: no signal has so few points."""
    clocks = {"p": Clock(2.0, 0.0)}
    assert tick_seconds(clocks, "t", True, ImportOptions(), None, False)[0] == 1.0
    assert tick_seconds(clocks, "t", True, ImportOptions(), 2.56, False)[0] == 1.0
    later = {"p": Clock(1280.0, 0.0)}
    assert tick_seconds(later, "t", True, ImportOptions(), 2.56, False)[0] == 1e-3


def since_boot(path: Path, tick: float, start: float, column: str = "timestamp") -> Path:
    """The table with times of another unit and start, of 10 samples a second."""
    head, *rest = lines()
    made = [head.replace("time", column)]
    for line in rest:
        user, state, t, *axes = line.split(",")
        made.append(",".join([user, state, f"{start + float(t) / tick:.0f}", *axes]))
    return written(path, made)


@pytest.mark.parametrize(
    ("start", "column"), turns([4.68e14, 1.7e15, 1e12, 1e9, 0.0], ["timestamp", "time_ms"])
)
def test_the_rate_that_is_given_wins_over_size_and_name(
    tmp_path: Path, start: float, column: str
) -> None:
    """Of nanoseconds since a phone was switched on."""
    path = since_boot(tmp_path / "a.csv", 1e-9, start, column)
    time = {"time": column}
    made = imported(path, tmp_path / "out", rate=10.0, **time)
    assert made.samples == 18 and not made.dropped.counts
    (note,) = [note for note in made.notes if "--time-unit" in note]
    assert note.startswith("Guessed: --time-unit ns")
    assert imported(as_parquet(path), tmp_path / "parquet", rate=10.0, **time).samples == 18
    people = fedsub.federation(pd.read_csv(path), rate=10, window="2s", overlap=0, **time)
    assert sum(len(one.y) for one in people.clients.values()) == 18


def test_a_unit_that_contradicts_the_rate_is_refused_with_both_readings(tmp_path: Path) -> None:
    """Milliseconds of 2026, 10 samples a second: at --rate 0.2 no unit makes sense."""
    path = since_boot(tmp_path / "a.csv", 1e-3, 1.77e12)
    said = (
        "column 'timestamp': got steps of 100, by the size of its numbers, since 1970, ms, which "
        "is 10 a second, and --rate 0.2; expected one reading. Say the unit with --time-unit"
    )
    with pytest.raises(DataError, match=re.escape(said)):
        imported(path, tmp_path / "out", rate=0.2, window="20s")
    made = imported(path, tmp_path / "said", rate=0.2, window="10s", overlap=0.5, time_unit="ms")
    assert made.card.sampling_rate_hz == 0.2


def test_steps_that_may_be_of_two_units_are_asked_about() -> None:
    """A row each ms, or each s? At --rate 20 both are far off; at 1, 100 and 1000 one is not.

    Steps of 1 may number the rows: at --rate 200 that is asked, too.
    """
    clocks = {"p": Clock(1.0, 0.0)}
    said = "got steps of 1, by its steps perhaps ms, which is 1000 a second, and --rate 20; "
    with pytest.raises(DataError, match=re.escape(said)):
        tick_seconds(clocks, "t", True, ImportOptions(), 1 / 20)
    for rate in (100, 200):
        with pytest.raises(DataError, match=r"--time-unit.*or --time none, if it numbers the rows"):
            tick_seconds(clocks, "t", True, ImportOptions(), 1 / rate)
    found = [tick_seconds(clocks, "t", True, ImportOptions(), 1 / r)[0] for r in (1, 1000)]
    assert found == [1.0, 1e-3]
    two = {"p": Clock(2.0, 0.0)}
    assert tick_seconds(two, "t", True, ImportOptions(), 1 / 200)[0] == 1e-3
    fast = {"p": Clock(0.0005, 0.0)}
    assert tick_seconds(fast, "t", True, ImportOptions(), 1 / 50)[0] == 1.0


def test_a_row_number_that_is_called_time_is_named(tmp_path: Path) -> None:
    path = since_boot(tmp_path / "a.csv", 0.1, 0.0, "time")
    made = imported(path, tmp_path / "out")
    assert (
        "Guessed: --time-unit s. If column 'time' numbers the rows, give --time none and --rate."
    ) in made.notes
    with pytest.raises(DataError, match="or --time none, if it numbers the rows"):
        imported(path, tmp_path / "rate", rate=50.0)
    assert imported(path, tmp_path / "none", rate=10.0, time="none").samples == 18


@pytest.mark.parametrize(
    ("length", "unit", "word"),
    [(60, "minutes", "min"), (3600, "hours", "h"), (86400, "days", "Days")],
)
def test_minutes_hours_and_days_are_refused(
    tmp_path: Path, length: int, unit: str, word: str
) -> None:
    """At a tenth of a second from row to row; read as seconds, a window would last minutes."""
    path = since_boot(tmp_path / "a.csv", length * 1e-9, 0.0, "time")
    text = path.read_text("utf-8").splitlines()
    small = [text[0]]
    for line in text[1:]:
        user, state, t, *axes = line.split(",")
        small.append(",".join([user, state, f"{int(t) * 1e-9:.12f}", *axes]))
    written(path, small)
    with pytest.raises(DataError, match=f"at --rate 10 {unit}, expected s, ms, us, ns or dates"):
        imported(path, tmp_path / "out", rate=10.0)
    assert imported(path, tmp_path / "none", rate=10.0, time="none").samples == 18
    named = written(path, [small[0].replace("time", f"Time ({word})"), *small[1:]])
    with pytest.raises(DataError, match=f"by its name {unit}"):
        imported(named, tmp_path / "named", time=f"Time ({word})")


def test_a_guessed_rate_that_no_signal_has_is_refused_with_the_other_readings(
    tmp_path: Path,
) -> None:
    path = since_boot(tmp_path / "a.csv", 1e-9, 1.7e15)
    with pytest.raises(DataError) as error:
        imported(path, tmp_path / "out")
    assert str(error.value) == (
        "column 'timestamp', read as us: got 0.01 samples a second, expected 0.1 to 10,000. It "
        "would be 10 a second with --time-unit ns. If 0.01 is right, say --rate 0.01; if rows are "
        "no signal, --window none"
    )
    assert imported(path, tmp_path / "ns", time_unit="ns").samples == 18
    assert imported(path, tmp_path / "said", rate=0.01, time_unit="us", window="200s").people == 3
    assert imported(path, tmp_path / "rows", window="none").samples == 360


def test_whole_seconds_of_many_rows_are_seconds_at_the_rate_of_the_rows(tmp_path: Path) -> None:
    """Ten rows bear each second: their steps are no milliseconds, whatever the rate is."""
    head, *rest = lines()
    coarse = [head]
    for line in rest:
        user, state, t, *axes = line.split(",")
        coarse.append(",".join([user, state, str(int(float(t))), *axes]))
    path = written(tmp_path / "a.csv", coarse)
    for name, given in (("given", {"rate": 10.0}), ("guessed", {})):
        made = imported(path, tmp_path / name, duplicates="keep", **given)
        assert made.samples == 18 and made.card.sampling_rate_hz == 10
        assert "Guessed: --time-unit s." in made.notes


def test_days_of_a_diary_are_no_signal_unless_it_is_said(tmp_path: Path) -> None:
    rows = [f"{p},{'xy'[d % 2]},2026-01-{d + 1:02},{d % 5}" for p in "ab" for d in range(28)]
    path = written(tmp_path / "a.csv", ["user,state,date,f", *rows])
    with refused(DataError, "column 'date'", "dates", got="1.157e-05 samples"):
        imported(path, tmp_path / "out")
    assert imported(path, tmp_path / "rows", window="none").samples == 56


def test_times_of_arrays_are_seconds_and_another_unit_is_shown() -> None:
    t = np.arange(200) * 1e5
    people = {name: (np.sin(t)[:, None], np.arange(200) // 100, t) for name in "ab"}
    with pytest.raises(DataError, match="10 a second with time_unit='us'"):
        fedsub.federation(people)
    made = fedsub.federation(people, time_unit="us")
    assert made.card.sampling_rate_hz == 10


def test_of_two_people_the_rate_is_that_of_one(tmp_path: Path) -> None:
    """Halfway between 10 and 5 Hz nobody has samples."""
    path = written(tmp_path / "a.csv", [*lines(("01",)), *lines(("02",), 60, 5.0)[1:]])
    assert imported(path, tmp_path / "out").card.sampling_rate_hz == 10
    assert read_federation(tmp_path / "out").clients["02"].x.shape[2] == 20
