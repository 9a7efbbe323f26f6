"""People whose clocks count in another unit."""

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.clocks import Clock, check_clocks
from fedsub_data.importing.options import ImportOptions


def clocks(**steps: float) -> dict[str, Clock]:
    return {name: Clock(step, 0.0) for name, step in steps.items()}


def test_clocks_that_differ_as_clocks_do_pass() -> None:
    check_clocks(clocks(a=0.02, b=0.01, c=0.05, d=0.02), ImportOptions())
    # Half of them differ: nobody knows whose unit it is.
    check_clocks(clocks(a=1, b=1, c=1000, d=1000), ImportOptions())


def test_a_clock_in_another_unit_is_refused() -> None:
    with refused(DataError, "person 'd'", "column 'time'", got=20):
        check_clocks(clocks(a=0.02, b=0.02, c=0.02, d=20.0), ImportOptions())


def test_the_column_of_time_is_called_by_its_name() -> None:
    with refused(DataError, "person 'd'", "column 'stamp'", got=20):
        check_clocks(clocks(a=0.02, b=0.02, c=0.02, d=20.0), ImportOptions(), "stamp")
