"""The written-out gradient equals autograd's, for every term it knows and any layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fedsub_core.data.stacks import Stack
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.models.model import Params
from fedsub_core.training import (
    Batch,
    Met,
    batch_gradient,
)
from fedsub_core.training.gradients import Gradient

from .every_objective import objectives

pytestmark = pytest.mark.usefixtures("either")
COUNTS = (5, 100, 33, 64)


def a_batch(data: Stack) -> Batch:
    """All samples of all clients at once; padding weighs nothing."""
    weight = data.valid / torch.tensor(data.counts).unsqueeze(1)
    return Batch(data.x, data.y, weight, 0)


@pytest.mark.parametrize("name", list(objectives({})))
@pytest.mark.parametrize("layers", ["all", "head", "body"])
def test_the_kernel_equals_autograd(
    name: str, layers: str, model: Chain, random_stack: Callable[..., Stack]
) -> None:
    params, batch = model.init(len(COUNTS), seed=0), a_batch(random_stack(model))
    only = {"all": None, "head": model.head(), "body": model.body()}[layers]
    objective = objectives(params)[name]
    found: list[tuple[Params, Met]] = []
    for written_out in (True, False):
        gradient = Gradient(model, objective, only, written_out)
        assert (gradient.chain is not None) == written_out
        found.append(gradient.value(params, batch))
    (kernel, met), (autograd, expected_met) = found
    assert kernel.keys() == autograd.keys()
    assert set(kernel) == set(params if only is None else model.parameters_of(only))
    for key, expected in autograd.items():
        torch.testing.assert_close(kernel[key], expected, atol=1e-6, rtol=1e-4)
        assert expected.any(), "nothing was compared"
    torch.testing.assert_close(met, expected_met)


def test_a_gradient_lands_in_a_buffer_that_keeps_some(random_stack: Callable[..., Stack]) -> None:
    model = mlp(3, 6)
    params, batch = model.init(len(COUNTS), seed=0), a_batch(random_stack(model))
    objective = objectives(params)["masked"]
    plain = batch_gradient(model, params, batch, objective)
    for written_out in (True, False):
        gradient = Gradient(model, objective, written_out=written_out)
        own = gradient.split(gradient.stacked())
        buffers = {name: 2 * tensor for name, tensor in plain.items()}
        gradient.into(params, [batch], own, buffers, keep=0.5)
        for name, tensor in plain.items():
            torch.testing.assert_close(buffers[name], 2 * tensor)


def test_a_gradient_as_a_value_changes_nothing(random_stack: Callable[..., Stack]) -> None:
    model = mlp(3, 6)
    params, batch = model.init(len(COUNTS), seed=0), a_batch(random_stack(model))
    before = {name: tensor.clone() for name, tensor in params.items()}
    first, second = (batch_gradient(model, params, batch) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in params)
    assert all(torch.equal(before[name], params[name]) for name in params)
    assert set(batch_gradient(model, params, batch, only=["linear3"])) == {
        "linear3.weight",
        "linear3.bias",
    }
