"""Units brought to another model's by optimal transport: numbers that can be checked in one's head.

The model is 2 inputs (or 1), one hidden layer, one output, without biases.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.model import Params
from strategies.parts.alignment import aligned, plan

LAYERS = ("linear1", "linear2")
CHAINS = mlp(3, 4, (16, 24)), cnn1d(2, 64, 3)


def model(rows: list[list[float]], following: list[list[float]]) -> dict[str, Tensor]:
    return {
        "linear1.weight": torch.tensor(rows),
        "linear1.bias": torch.zeros(len(rows)),
        "linear2.weight": torch.tensor(following),
        "linear2.bias": torch.zeros(len(following)),
    }


@pytest.mark.parametrize("exact", [True, False])
def test_rows_that_are_swapped_are_swapped_back(exact: bool) -> None:
    cost = torch.cdist(torch.eye(2), torch.eye(2).flip(0))
    found = plan(cost, exact)
    torch.testing.assert_close(
        found, torch.tensor([[0.0, 0.5], [0.5, 0.0]]).double(), atol=1e-6, rtol=0
    )
    own = model([[1.0, 0.0], [0.0, 1.0]], [[3.0, 4.0]])
    other = model([[0.0, 1.0], [1.0, 0.0]], [[4.0, 3.0]])
    for name, tensor in aligned(own, other, LAYERS, exact=exact).items():
        torch.testing.assert_close(tensor, other[name], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("keep_sums", "following"), [(False, [[1.5, 3.5]]), (True, [[3.0, 7.0]])])
def test_four_units_become_two(keep_sums: bool, following: list[list[float]]) -> None:
    whole = model([[0.0], [0.1], [1.0], [1.1]], [[1.0, 2.0, 3.0, 4.0]])
    found = aligned(whole, model([[0.0], [1.0]], [[0.0, 0.0]]), LAYERS, keep_sums)
    torch.testing.assert_close(found["linear1.weight"], torch.tensor([[0.05], [1.05]]))
    torch.testing.assert_close(found["linear2.weight"], torch.tensor(following))


@pytest.mark.parametrize(
    ("keep_sums", "following"),
    [(False, [[3.0, 3.0, 7.0, 7.0]]), (True, [[1.5, 1.5, 3.5, 3.5]])],
)
def test_two_units_become_four(keep_sums: bool, following: list[list[float]]) -> None:
    small = model([[0.0], [1.0]], [[3.0, 7.0]])
    whole = model([[0.0], [0.1], [1.0], [1.1]], [[0.0] * 4])
    found = aligned(small, whole, LAYERS, keep_sums)
    torch.testing.assert_close(found["linear1.weight"], torch.tensor([[0.0], [0.0], [1.0], [1.0]]))
    torch.testing.assert_close(found["linear2.weight"], torch.tensor(following))


def permuted(params: Params, layers: Sequence[str]) -> dict[str, Tensor]:
    """Return the same function with its hidden units in another order."""
    found, before = {}, None
    for i, layer in enumerate(layers):
        weight, bias = params[f"{layer}.weight"][0], params[f"{layer}.bias"][0]
        if before is not None:
            each = weight.flatten(1).shape[1] // len(before)
            by_unit = weight.reshape(len(weight), len(before), each)
            weight = by_unit[:, before].reshape(weight.shape)
        if i < len(layers) - 1:
            before = torch.randperm(len(weight))
            weight, bias = weight[before], bias[before]
        found[f"{layer}.weight"], found[f"{layer}.bias"] = weight, bias
    return found


@pytest.mark.parametrize("chain", CHAINS, ids=["mlp", "cnn1d"])
def test_a_permuted_copy_comes_back(chain: Chain) -> None:
    layers = chain.layer_names
    params = chain.init(1, seed=3)
    mixed = permuted(params, layers)
    assert not torch.equal(mixed[f"{layers[0]}.weight"], params[f"{layers[0]}.weight"][0])
    for name, tensor in aligned(mixed, {n: t[0] for n, t in params.items()}, layers).items():
        torch.testing.assert_close(tensor, params[name][0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("chain", CHAINS, ids=["mlp", "cnn1d"])
def test_with_sums_a_model_of_doubled_units_becomes_the_single_one(chain: Chain) -> None:
    params, layers = {n: t[0] for n, t in chain.init(1, seed=3).items()}, chain.layer_names
    double: dict[str, Tensor] = {}
    before = 0
    for layer in layers:
        weight, bias = params[f"{layer}.weight"], params[f"{layer}.bias"]
        if before:
            # Two units see what one saw: each counts half.
            halves = weight.reshape(len(weight), before, -1).repeat_interleave(2, 1) / 2
            weight = halves.reshape(len(weight), -1, *weight.shape[2:])
        before = len(weight)
        if layer != layers[-1]:
            weight, bias = weight.repeat_interleave(2, 0), bias.repeat_interleave(2, 0)
        double[f"{layer}.weight"], double[f"{layer}.bias"] = weight, bias
    for name, tensor in aligned(double, params, layers, keep_sums=True).items():
        torch.testing.assert_close(tensor, params[name], atol=1e-6, rtol=0)
