"""The time of a recording at a fixed rate."""

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.preparing.windows import Clock


def test_pauses_within_and_between_blocks() -> None:
    clock = Clock("f.csv", 4)
    first = clock.pauses(np.array([10.0, 10.25, 10.5, 11.0, 11.25]), 2)
    np.testing.assert_array_equal(first, [True, False, False, True, False])
    np.testing.assert_array_equal(clock.pauses(np.array([11.5, 11.75]), 7), [False, False])
    np.testing.assert_array_equal(clock.pauses(np.array([12.25, 12.62]), 9), [True, False])


@pytest.mark.parametrize("again", [11.25, 3.0])
def test_time_that_repeats_or_runs_backwards_names_its_line(again: float) -> None:
    clock = Clock("f.csv", 4)
    clock.pauses(np.array([11.0, 11.25]), 2)
    with refused(DataError, "f.csv", "line 4", "11.25 s", got=f"{again:g} s"):
        clock.pauses(np.array([again, 12.0]), 4)
