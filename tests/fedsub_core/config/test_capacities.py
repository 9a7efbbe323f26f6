"""What texts say of devices' capacities, and how they are refused."""

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.config.capacities import MOST_SHARES, check_capacities, read_capacities
from fedsub_core.config.run_config import from_flat, read_config
from fedsub_core.errors import ConfigError


def test_a_text_says_shares_or_whose_share_is_which() -> None:
    assert read_capacities("0.5") == ((0.5,), {})
    assert read_capacities("0.25, 1/2,1") == ((0.25, 0.5, 1.0), {})
    assert read_capacities("b=0.5,a = 1/8") == ((), {"a": 0.125, "b": 0.5})


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
        (",".join(["1"] * (MOST_SHARES + 1)), "got 101 shares, expected 100 at most"),
    ],
)
def test_what_says_no_capacities_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_capacities(text)


def test_a_run_takes_it_as_it_stands_everywhere() -> None:
    given = {"method": "heterofl", "capacities": "p1=0.5"}
    assert read_config(None, given) == from_flat(given)
    with refused(ConfigError, "command line", "capacities", "client 'p1'", got="'5'"):
        read_config(None, given | {"capacities": "p1=5"})
