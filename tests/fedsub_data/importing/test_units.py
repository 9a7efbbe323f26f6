"""Units of time by steps, dates and names; people whose numbers are in another unit."""

from __future__ import annotations

import numpy as np
import pytest

from fedsub_core.errors import DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.time_unit import tick_seconds
from fedsub_data.importing.units import Survey, check_units


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
    surveys = {"p": Survey(step, start, np.ones(1))}
    between = 1 / rate if rate else None
    found, said = tick_seconds(surveys, column, True, ImportOptions(), between)
    assert found == unit and said.startswith("Guessed: --time-unit")
    assert tick_seconds(surveys, column, False, ImportOptions()) == (1.0, "")


def test_samples_and_windows_may_be_seconds_apart() -> None:
    """A window begins every 2 s, a state is asked every 5: no signal has so few points."""
    surveys = {"p": Survey(2.0, 0.0, np.ones(1))}
    assert tick_seconds(surveys, "t", True, ImportOptions(), None, False)[0] == 1.0
    assert tick_seconds(surveys, "t", True, ImportOptions(), 2.56, False)[0] == 1.0
    later = {"p": Survey(1280.0, 0.0, np.ones(1))}
    assert tick_seconds(later, "t", True, ImportOptions(), 2.56, False)[0] == 1e-3


def people(**sizes: float) -> dict[str, Survey]:
    return {name: Survey(0.02, 0.0, size * np.array([1.0, 2.0])) for name, size in sizes.items()}


def test_people_who_differ_as_people_do_pass() -> None:
    check_units(people(a=1, b=2, c=0.6, d=3), ("x", "y"), ImportOptions())
    # Half of them differ: nobody knows whose unit it is.
    check_units(people(a=1, b=1, c=1000, d=1000), ("x", "y"), ImportOptions())


@pytest.mark.parametrize("factor", [9.81, 1 / 9.81, 57.3, 1000, 0.001])
def test_a_person_off_by_a_units_factor_is_refused(factor: float) -> None:
    with pytest.raises(DataError, match=r"person 'd', column 'y': got values of"):
        check_units(people(a=1, b=1.2, c=0.8, d=factor), ("x", "y"), ImportOptions())


def test_a_clock_in_another_unit_is_refused() -> None:
    surveys = people(a=1, b=1, c=1, d=1)
    surveys["d"] = Survey(20.0, 0.0, np.array([1.0, 2.0]))
    with pytest.raises(DataError, match=r"person 'd', column 'time': got steps in time of 20"):
        check_units(surveys, ("x", "y"), ImportOptions())
