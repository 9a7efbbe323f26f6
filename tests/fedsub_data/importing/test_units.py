"""People whose numbers, or clocks, are in another unit."""

from __future__ import annotations

import numpy as np
import pytest

from fedsub_core.errors import DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.units import Survey, check_units


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
