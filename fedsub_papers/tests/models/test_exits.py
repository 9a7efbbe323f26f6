"""Models with exits."""

from math import prod

import pytest
import torch

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.units import first_units
from fedsub_core.training import (
    CE,
    Batch,
    CrossEntropy,
    batch_gradient,
)
from fedsub_core.training.objectives import Forward
from fedsub_papers.client.parts.distillation import Distillation
from fedsub_papers.methods.scalefl import ScaleFLHyperparameters
from fedsub_papers.models.exits import (
    Exits,
    exits_of,
    scaled,
    shortened,
    with_all_exits,
    with_exits,
)
from fedsub_papers.tests.again import again
from tests.fedsub_core.models import test_units as units
from tests.fedsub_core.models.test_record import record
from tests.fedsub_core.training.test_objectives import one_client

EXITS = with_exits(cnn1d(2, 64, 6), ("conv1", "linear1"))
test_a_part_computes_what_the_masked_model_computes = again(
    units.test_a_part_computes_what_the_masked_model_computes, "model", [EXITS]
)
test_placing_back_is_the_inverse_of_taking = again(
    units.test_placing_back_is_the_inverse_of_taking, "model", [EXITS]
)


def size(model: Chain) -> int:
    return sum(prod(shape) for shape in model.parameter_shapes.values())


def test_sizes_of_the_papers_models() -> None:
    assert size(with_exits(mlp(3, 6), ["linear1"])) == 70_412
    assert size(with_exits(cnn1d(9, 128, 6), ["conv1", "conv2"])) == 48_338


def test_outputs_are_those_of_every_exit_the_chains_own_last() -> None:
    chain = cnn1d(2, 64, 4)
    model = with_exits(chain, ["conv2", "conv1"])
    params, x = model.init(3, seed=0), torch.randn(3, 5, 2, 64)
    outputs = model.outputs(params, x)
    assert [logits.shape for logits in outputs] == [(3, 5, 4)] * 3
    assert torch.equal(outputs[-1], chain.forward(params, x))
    assert torch.equal(outputs[-1], model.forward(params, x))
    # Exits stand in the order of the chain, whatever the order of their names.
    assert model.parameter_shapes["exit1.weight"] == (4, 32 * 4)
    assert model.parameter_shapes["exit2.weight"] == (4, 64 * 4)
    tape: list[Step] = []
    chain.forward(params, x, tape)
    pooled = torch.nn.functional.adaptive_avg_pool1d(tape[1].out.flatten(0, 1), 4)
    weight, bias = params["exit1.weight"][0], params["exit1.bias"][0]
    expected = pooled.flatten(1).view(3, 5, -1)[0] @ weight.T + bias
    torch.testing.assert_close(outputs[0][0], expected)


def test_a_chain_has_one_output() -> None:
    model = mlp(3, 6)
    params, x = model.init(1, seed=0), torch.randn(1, 2, 3)
    (logits,) = model.outputs(params, x)
    assert torch.equal(logits, model.forward(params, x))
    assert isinstance(with_exits(model, []), Exits)


def test_exits_after_what_is_no_hidden_layer_are_refused() -> None:
    for name in ("linear3", "relu"):
        with pytest.raises(ConfigError, match=f"exits after {name}: expected some of linear1"):
            with_exits(mlp(3, 6), [name])


@pytest.mark.parametrize(("last", "numbers_held"), [(1, 2_822), (2, 14_668), (3, 48_338)])
def test_what_leads_to_an_exit_computes_what_the_whole_says_there(
    last: int, numbers_held: int
) -> None:
    model = with_all_exits(cnn1d(9, 128, 6))
    part = model.up_to(last)  # type: ignore[attr-defined]
    assert size(part) == numbers_held and exits_of(part) == last
    params, x = model.init(2, seed=1), torch.randn(2, 3, 9, 128)
    own = {name: params[name] for name in part.parameter_shapes}
    for ours, theirs in zip(part.outputs(own, x), model.outputs(params, x), strict=False):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(part.forward(own, x), model.outputs(params, x)[last - 1])
    assert (type(part) is Chain) == (last == 1), "with one exit it trains as any chain"


@pytest.mark.parametrize(
    ("capacity", "exits"), [(1.0, 3), (0.75, 2), (0.5, 1), (0.25, 1), (0.1, 1)]
)
def test_depth_comes_in_few_steps(capacity: float, exits: int) -> None:
    """Of 5.8, 30 and 100 % of the numbers: at c = 1/2 four fifths of the budget are left."""
    assert exits_of(shortened(cnn1d(9, 128, 6), None, capacity)) == exits
    if capacity == 0.5:
        held = size(shortened(cnn1d(9, 128, 6), None, capacity))
        assert held / 48_338 == pytest.approx(0.058, abs=1e-3)


@pytest.mark.parametrize(
    ("capacity", "exits"), [(1.0, 3), (0.5, 3), (0.25, 2), (0.2, 1), (0.125, 1), (0.05, 1)]
)
def test_a_level_has_an_exit_and_the_greatest_width_that_fits(capacity: float, exits: int) -> None:
    hyper, whole = ScaleFLHyperparameters(), cnn1d(9, 128, 6)
    part = scaled(whole, hyper, capacity)
    assert exits_of(part) == exits
    first = part.parameter_shapes["conv1.weight"][0]
    assert size(part) <= capacity**2 * 48_338 or first == 1
    if capacity == 0.5:  # of three exits narrower than heterofl's half, which has no heads
        assert 12 <= first <= 16
    if capacity == 0.2:
        assert 1 < first <= 32


def test_models_of_one_hidden_layer_have_one_exit() -> None:
    model = mlp(3, 6, (16,))
    assert with_all_exits(model) is model and exits_of(model) == 1 and model.path is model
    assert size(scaled(model, ScaleFLHyperparameters(), 0.5)) <= size(model) / 4
    for wrong in ("1,0.5", "0,1", "a"):
        with pytest.raises(ConfigError, match=r"scalefl.levels: got"):
            ScaleFLHyperparameters(levels=wrong).shares()


def test_exits_are_weighed_and_taught() -> None:
    model = with_exits(mlp(3, 4), ["linear1"])
    data, params = one_client([0.5] * 3, [0, 1, 2]), model.init(1, seed=0)
    x = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0))
    batch = Batch(x, data.y, torch.full((1, 3), 1 / 3), 0)
    first, last = (logits.detach() for logits in model.outputs(params, batch.x))
    forward = Forward(params, batch, (first, last), first)
    losses = [torch.nn.functional.cross_entropy(z[0], data.y[0]) for z in (first, last)]
    assert float(CE.loss(forward, {})) == pytest.approx(float(losses[1]))
    both = CrossEntropy(exits=(0.25, 0.75)).loss(forward, {})
    assert float(both) == pytest.approx(float(0.25 * losses[0] + 0.75 * losses[1]))
    with pytest.raises(ConfigError, match="weights for 3 exits, the model has 2"):
        CrossEntropy(exits=(1.0, 1.0, 1.0)).loss(forward, {})

    parts = (1 / 3, 2 / 3)
    taught = Distillation(0.5, parts, temperature=2.0).loss(forward, {})
    divergence = torch.nn.functional.kl_div(
        (first[0] / 2).log_softmax(1), (last[0] / 2).softmax(1), reduction="mean"
    )
    assert float(taught) == pytest.approx(float(0.5 * 4 * divergence / 3), rel=1e-4)
    gradient = batch_gradient(model, params, batch, CE + Distillation(1.0, parts))
    assert gradient["exit1.weight"].any()
    # The teacher is a constant: its head learns as if nobody listened.
    alone = batch_gradient(model, params, batch, CE)
    assert not Distillation(0.0, parts).active
    torch.testing.assert_close(gradient["linear3.weight"], alone["linear3.weight"])
    assert not alone["exit1.weight"].any()


def test_an_exits_classes_are_no_units() -> None:
    model = EXITS
    assert [group.name for group in model.unit_groups] == ["conv1", "conv2", "linear1"]
    small, places = model.narrow(first_units(model, 0.25))
    shapes = small.parameter_shapes
    assert (shapes["exit1.weight"], shapes["exit2.weight"]) == ((6, 8 * 4), (6, 32))
    assert places["exit1.bias"].everywhere


def test_exits_are_layers_of_the_record() -> None:
    found = record("depthfl", (9, 128))
    assert any(line.startswith("an exit behind the first") for line in found.layers)
