"""Models with exits."""

from __future__ import annotations

from math import prod

import pytest
import torch

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.exits import Exits, with_exits
from fedsub_core.models.kinds import cnn1d, mlp


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
