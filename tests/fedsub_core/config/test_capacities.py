"""What the option ``capacity`` says of simulated devices, and how it is refused."""

from __future__ import annotations

import pytest

from fedsub_core.config.capacities import capacities, check_capacities
from fedsub_core.config.run_config import from_flat, read_config
from fedsub_core.errors import ConfigError


def test_one_share_is_everybodys_and_several_are_taken_in_turn() -> None:
    assert capacities("0.5", ["b", "a"]) == {"a": 0.5, "b": 0.5}
    assert capacities("0.25, 0.5,1", ["d", "b", "a", "c"]) == {
        "a": 0.25,
        "b": 0.5,
        "c": 1,
        "d": 0.25,
    }
    assert capacities("b=0.5,a = 1", ["a", "b", "c"]) == {"a": 1, "b": 0.5, "c": 1}
    assert capacities("1/4,1", ["a", "b"]) == {"a": 0.25, "b": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", r"share 1 of '0': got '0', expected a share in \(0, 1\]"),
        ("1,1.5", r"share 2 of '1,1.5': got '1.5', expected a share in \(0, 1\]"),
        ("nan", "got 'nan', expected a share"),
        ("anna=half", r"client 'anna': got 'half', expected a share in \(0, 1\]"),
        ("anna=-1", "client 'anna': got '-1', expected a share"),
        ("0.5,anna=1", "got '0.5,anna=1', expected shares alone, or client=share for each"),
        ("anna=1,anna=0.5", "for each client once"),
        ("an na=1", "got client 'an na', expected"),
        ("", "got '', expected a share"),
    ],
)
def test_what_says_no_capacities_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_capacities(text)


def test_whom_the_data_do_not_have_is_named() -> None:
    with pytest.raises(ConfigError, match="got client 'ana', expected one of 2 in the data"):
        capacities("ana=0.5", ["anna", "ben"])


def test_a_run_takes_it_as_it_stands_everywhere() -> None:
    given = {"method": "heterofl", "capacity": "p1=0.5"}
    assert read_config(None, given) == from_flat(given)
    with pytest.raises(ConfigError, match="command line: capacity: client 'p1': got '5', expected"):
        read_config(None, given | {"capacity": "p1=5"})
