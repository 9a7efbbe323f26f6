"""Weak devices that hold some units of each layer, by the papers' rules: numbers by hand."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from fedsub.testing.runs import Run, RunMethod
from fedsub_core.models.kinds import mlp
from fedsub_core.training import Turn
from fedsub_papers.tests.again import again
from strategies.parts.sub_models import best
from tests.methods import test_sub_models as house
from tests.methods.test_sub_models import SHARES, server


def units(name: str, sizes: Sequence[int], share: float, turn: Turn, **hyper: Any) -> list[Any]:
    """Return the units of each hidden layer that a client of capacity `share` holds."""
    model = mlp(2, 2, tuple(sizes))
    strategy = server(name, model, {"weak": share}, **hyper)
    state = {name: t[0] for name, t in model.init(1, 0).items()}
    counts = {layer.name: layer.units for layer in strategy.held_by("weak").affine[:-1]}
    found = strategy.half.units(state, strategy.round(turn), "weak", counts)
    return [held.tolist() for held in found.values()]


def test_fedrolex_moves_its_window_by_one_unit_a_round() -> None:
    windows = [units("fedrolex", [4], 0.5, Turn(r, 9, 0))[0] for r in range(1, 6)]
    assert windows == [[0, 1], [1, 2], [2, 3], [0, 3], [0, 1]]
    assert set(Counter(chain.from_iterable(windows[:4])).values()) == {2}
    assert units("fedrolex", [4], 0.5, Turn(2, 9, 0), step=2) == [[2, 3]]


def test_fedrolex_reaches_few_units_of_wide_layers_in_few_rounds() -> None:
    seen: list[set[int]] = [set(), set()]
    for round in range(1, 61):
        for layer, window in zip(
            seen, units("fedrolex", [128, 512], 1 / 16, Turn(round, 60, 0)), strict=True
        ):
            layer |= set(window)
    assert [len(layer) for layer in seen] == [8 + 59, 32 + 59]


def test_feddrop_draws_every_unit_alike_often() -> None:
    drawn = [units("feddrop", [4], 0.5, Turn(r, 400, 1))[0] for r in range(1, 401)]
    counts = Counter(chain.from_iterable(drawn))
    assert all(abs(counts[unit] - 200) <= 40 for unit in range(4)), counts
    assert drawn[:3] == [units("feddrop", [4], 0.5, Turn(r, 400, 1))[0] for r in range(1, 4)]


def test_feddrop_draws_for_each_client_or_for_all() -> None:
    model, clients = mlp(2, 2, (16,)), [f"c{i}" for i in range(6)]
    for each in (True, False):
        strategy = server("feddrop", model, dict.fromkeys(clients, 0.5), per_client=each)
        sets = {
            tuple(strategy.half.units({}, strategy.round(), c, {"linear1": 8})["linear1"].tolist())
            for c in clients
        }
        assert (len(sets) > 1) == each


def test_fedmp_keeps_the_units_of_largest_norm() -> None:
    strategy = server("fedmp", mlp(2, 2, (4,)), {"weak": 0.5})
    weight = torch.tensor([[3.0, 0.0], [0.0, 1.0], [2.0, -2.0], [0.5, 0.5]])
    for count, kept in ((2, [0, 2]), (3, [0, 1, 2])):
        found = strategy.half.units(
            {"linear1.weight": weight}, strategy.round(), "weak", {"linear1": count}
        )
        assert found["linear1"].tolist() == kept
    assert best(np.array([1.0, 5.0, 1.0]), 2).tolist() == [0, 1], "of equal ones the first"


def test_the_model_is_tested_as_the_next_round_sends_it(run_method: RunMethod) -> None:
    run: Run = run_method("fedrolex", capacities=SHARES)
    state = run.states[-1]
    tested = run.strategy.tested_downloads(["p3"])[0]
    (following,) = run.strategy.half.downloads(state, run.strategy.round(4), ["p3"])
    for key in following.tensors:
        np.testing.assert_array_equal(tested.floats(key), following.floats(key))


SLICES = ("fedrolex", "feddrop", "fedmp")

test_a_number_is_the_mean_over_who_holds_it = again(
    house.test_a_number_is_the_mean_over_who_holds_it,
    "name, weights, shared, others",
    [("fedmp", "clients", 2.0, 1.5)],
)
test_where_all_hold_all_it_is_fedavg = again(
    house.test_where_all_hold_all_it_is_fedavg, "name", SLICES
)
test_a_weak_device_holds_trains_and_sends_its_part_alone = again(
    house.test_a_weak_device_holds_trains_and_sends_its_part_alone, "name", SLICES
)
test_each_on_a_device_of_its_own_they_train_as_in_one_process = again(
    house.test_each_on_a_device_of_its_own_they_train_as_in_one_process, "name", SLICES
)
test_differences_begin_anew_with_who_comes_back_with_another_capacity = again(
    house.test_differences_begin_anew_with_who_comes_back_with_another_capacity,
    "name",
    ["subflot"],
)
