"""Gradients by the kernels and by autograd are equal, for every term and any layers."""

from collections.abc import Callable

import pytest
import torch

from fedsub_core.data.stacks import Stack
from fedsub_core.kernels import library
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.models.to_torch import to_torch
from fedsub_core.training import Batch, batch_gradient
from fedsub_core.training.gradients import Gradient

from .every_objective import objectives

COUNTS = (5, 100, 33, 64)


def a_batch(data: Stack) -> Batch:
    """All samples of all clients at once; padding weighs nothing."""
    weight = data.valid / torch.tensor(data.counts).unsqueeze(1)
    return Batch(data.x, data.y, weight, 0)


@pytest.mark.parametrize("name", list(objectives({})))
@pytest.mark.parametrize("layers", ["all", "head", "body"])
def test_the_kernels_equal_autograd(
    name: str,
    layers: str,
    model: Chain,
    random_stack: Callable[..., Stack],
    kernels: library.Kernels,
) -> None:
    params, batch = model.init(len(COUNTS), seed=0), a_batch(random_stack(model))
    only = {"all": None, "head": model.head(), "body": model.body()}[layers]
    gradient = Gradient(model, objectives(params)[name], only)
    found, met = gradient.value(params, batch)
    with library.switched_off():
        expected, expected_met = gradient.value(params, batch)
    assert found.keys() == expected.keys()
    assert set(found) == set(params if only is None else model.parameters_of(only))
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, atol=1e-6, rtol=1e-4)
        assert tensor.any(), "nothing was compared"
    torch.testing.assert_close(met, expected_met)


@pytest.mark.parametrize("either", ["torch"], indirect=True)
def test_stacked_clients_have_the_gradients_of_modules_alone(
    either: str, model: Chain, random_stack: Callable[..., Stack]
) -> None:
    params, data = model.init(len(COUNTS), seed=0), random_stack(model)
    found = batch_gradient(model, params, a_batch(data))
    for i, count in enumerate(COUNTS):
        module = to_torch(model, {name: t[i] for name, t in params.items()}).requires_grad_()
        loss = torch.nn.functional.cross_entropy(module(data.x[i, :count]), data.y[i, :count])
        expected = torch.autograd.grad(loss, list(module.parameters()))
        for tensor, one in zip(found.values(), expected, strict=True):
            torch.testing.assert_close(tensor[i], one, atol=1e-6, rtol=1e-4)


@pytest.mark.usefixtures("either")
def test_a_gradient_lands_in_a_buffer_that_keeps_some(random_stack: Callable[..., Stack]) -> None:
    model = mlp(3, 6)
    params, batch = model.init(len(COUNTS), seed=0), a_batch(random_stack(model))
    objective = objectives(params)["masked"]
    plain = batch_gradient(model, params, batch, objective)
    gradient = Gradient(model, objective)
    buffers = {name: 2 * tensor for name, tensor in plain.items()}
    gradient.into(params, [batch], gradient.split(gradient.stacked()), buffers, keep=0.5)
    for name, tensor in plain.items():
        torch.testing.assert_close(buffers[name], 2 * tensor)


@pytest.mark.usefixtures("either")
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
