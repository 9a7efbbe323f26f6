"""Sums and means over people, by hand: who counts for how much."""

import numpy as np
import pytest
import torch

from fedsub_core.closed_form.sending import flat
from fedsub_core.closed_form.stacking import Equations
from strategies.methods.fedsub_ridge.people import Facts, key, noted
from strategies.methods.fedsub_ridge.pooling import counts_as, pooled
from strategies.rounds.server_half import State


def person(
    client: str, trusted: int, said: float = 1.0, losses: tuple[float, ...] = (1, 2)
) -> State:
    """Return one whose only candidate says `said`, half of what is right."""
    of = Equations(1.0, np.array([[said**2]]), np.array([said / 2]), np.array(losses, float))
    row = torch.from_numpy(flat(of).astype(np.float32))
    return noted(client, Facts(2 * trusted, trusted, 1)) | {key("equations", client): row}


@pytest.mark.parametrize(
    ("most", "expected"),
    [(0.0, [10, 20, 30, 400]), (1.0, [10, 20, 30, 30]), (3.0, [10, 20, 30, 90])],
)
def test_samples_count_up_to_so_many_medians(most: float, expected: list[int]) -> None:
    state: State = {}
    for client, trusted in zip("abcd", (10, 20, 30, 400), strict=True):
        state |= person(client, trusted)
    assert list(counts_as(state, most).values()) == expected
    assert counts_as({}, most) == {}


def test_equations_are_a_mean_by_samples() -> None:
    state = person("a", 10, said=1.0) | person("b", 30, said=1.5)
    found = pooled(state, {"a": 10, "b": 30}, 1, 4)
    square = (10 * 1 + 30 * 2.25) / 40
    assert found.tolist() == pytest.approx([square, (10 * 0.5 + 30 * 0.75) / 40, 0, 1])
    assert pooled({}, {}, 1, 4).tolist() == [0, 0, 0, 0]


def test_who_sent_no_equations_has_no_part_in_them() -> None:
    state = person("a", 10) | noted("b", Facts(5, 5, 1))
    assert pooled(state, {"a": 10, "b": 5}, 1, 4).tolist() == [1, 0.5, 0, 1]


def test_candidates_that_say_huge_numbers_do_not_decide_alone() -> None:
    """Squares 1, 1 and 10,000: the last is shortened to three."""
    state = person("a", 10) | person("b", 10) | person("c", 10, said=100.0)
    square, target, *_ = pooled(state, dict.fromkeys("abc", 10), 1, 4)
    assert square == pytest.approx((1 + 1 + 3) / 3)
    assert target == pytest.approx((0.5 + 0.5 + 50 * 3 / 10_000) / 3)


def test_a_temperature_is_worse_by_three_nats_at_most() -> None:
    state = person("a", 10, losses=(900.0, 0.0)) | person("b", 10, losses=(0.5, 2.5))
    assert pooled(state, {"a": 10, "b": 10}, 1, 4)[2:].tolist() == pytest.approx([1.5, 1.0])
