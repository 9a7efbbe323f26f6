"""Whether a loss still fell when the rounds ended."""

import math
from collections.abc import Callable

import pytest

from fedsub_server.convergence import last_fall


def by_round(loss: Callable[[int], float], rounds: range) -> dict[int, dict[str, float]]:
    return {round: {"a": loss(round), "b": loss(round)} for round in rounds}


def test_what_fell_in_the_last_quarter_is_a_share_of_what_it_was() -> None:
    assert last_fall(by_round(lambda r: 2 - 0.1 * r, range(1, 13))) == pytest.approx(0.3 / 1.1)
    assert last_fall(by_round(lambda r: 1.0, range(1, 13))) == 0
    assert last_fall(by_round(lambda r: 0.1 * r, range(1, 13))) == pytest.approx(-1 / 3)
    # Tested every fifth round: from the last that is early enough.
    assert last_fall(by_round(lambda r: 2 - 0.1 * r, range(5, 21, 5))) == 1


def test_what_cannot_be_known_is_not_said() -> None:
    assert last_fall({}) is None
    assert last_fall(by_round(lambda r: 1.0, range(60, 61))) is None, "tested once"
    assert last_fall(by_round(lambda r: math.nan if r == 4 else 1.0, range(1, 5))) is None
    assert last_fall({1: {"a": 1.0}, 2: {"b": 0.5}}) is None, "other people"
