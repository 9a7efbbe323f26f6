"""Units of time by steps, dates and names; people whose clocks are in another unit."""

from __future__ import annotations

import pytest

from fedsub_core.errors import DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.units import Survey, check_units, tick_seconds


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
    surveys = {"p": Survey(step, start)}
    between = 1 / rate if rate else None
    found, said = tick_seconds(surveys, column, True, ImportOptions(), between)
    assert found == unit and said.startswith("Guessed: --time-unit")
    assert tick_seconds(surveys, column, False, ImportOptions()) == (1.0, "")


def test_samples_and_windows_may_be_seconds_apart() -> None:
    """A window begins every 2 s, a state is asked every 5: no signal has so few points."""
    surveys = {"p": Survey(2.0, 0.0)}
    assert tick_seconds(surveys, "t", True, ImportOptions(), None, False)[0] == 1.0
    assert tick_seconds(surveys, "t", True, ImportOptions(), 2.56, False)[0] == 1.0
    later = {"p": Survey(1280.0, 0.0)}
    assert tick_seconds(later, "t", True, ImportOptions(), 2.56, False)[0] == 1e-3


def clocks(**steps: float) -> dict[str, Survey]:
    return {name: Survey(step, 0.0) for name, step in steps.items()}


def test_clocks_that_differ_as_clocks_do_pass() -> None:
    check_units(clocks(a=0.02, b=0.01, c=0.05, d=0.02), ImportOptions())
    # Half of them differ: nobody knows whose unit it is.
    check_units(clocks(a=1, b=1, c=1000, d=1000), ImportOptions())


def test_a_clock_in_another_unit_is_refused() -> None:
    with pytest.raises(DataError, match=r"person 'd', column 'time': got steps in time of 20"):
        check_units(clocks(a=0.02, b=0.02, c=0.02, d=20.0), ImportOptions())
