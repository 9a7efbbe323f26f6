"""Conversion from torch.nn keeps the function, and refuses what it cannot keep."""

import pytest
import torch
from torch import nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.from_torch import from_torch


class Doubled(nn.Linear):
    """A subclass that computes something else."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(input, 2 * self.weight, self.bias)


class Residual(nn.Sequential):
    """A chain that is none."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        made = input
        for layer in self:
            made = layer(made)
        return input + made


class Named(nn.Sequential):
    """A chain that only has another name."""


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, given, made: made.tanh())
    return layer


TWICE = nn.Linear(3, 3)


def test_the_model_computes_what_the_module_computes() -> None:
    module = nn.Sequential(
        nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, stride=(2, 1)), nn.ReLU()),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(4, 5, (1, 2)),
        nn.AvgPool2d(2, stride=1),
        nn.AdaptiveAvgPool2d((1, 2)),
        nn.Flatten(),
        last := nn.Linear(10, 3),
    )
    stream = torch.Generator().manual_seed(0)
    for tensor in module.state_dict().values():
        tensor.copy_(torch.rand(tensor.shape, generator=stream) + 0.2)
    model, params = from_torch(module, (2, 9, 8))
    x = torch.randn(6, 2, 9, 8, generator=stream)
    torch.testing.assert_close(model.forward(params, x[None])[0], module(x).detach())
    assert {name: tuple(p.shape[1:]) for name, p in params.items()} == model.parameter_shapes
    before = last.weight.clone()
    params["layer3.weight"].zero_()
    assert torch.equal(last.weight, before)


def test_a_layer_used_twice_stands_twice() -> None:
    relu = nn.ReLU()
    module = Named(nn.Linear(3, 4), relu, nn.Linear(4, 4), relu, nn.Linear(4, 2))
    model, params = from_torch(module, (3,))
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    assert len(model.layers) == 5
    torch.testing.assert_close(model.forward(params, x[None])[0], module(x).detach())


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ([nn.Linear(3, 4), nn.GELU()], (3,), r"layer 1 \(GELU\): unknown"),
        ([nn.Conv2d(1, 4, 3)], (4, 9), r"layer 0 \(Conv2d\): .*expected 3 axes"),
        ([nn.Linear(3, 4), nn.BatchNorm1d(4)], (3,), r"layer 1 \(BatchNorm1d\): normalisation"),
        ([nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4)], (1, 9, 9), r"1 \(InstanceNorm2d\): normal"),
        ([nn.Linear(3, 4), nn.Dropout(0.5)], (3,), r"layer 1 \(Dropout\): no unit is dropped"),
        (
            [nn.Conv1d(4, 4, 3), nn.Dropout1d()],
            (4, 9),
            r"layer 1 \(Dropout1d\): no unit",
        ),
        ([nn.Linear(3, 4), nn.Softmax(1)], (3,), r"layer 1 \(Softmax\): the loss takes logits"),
        ([nn.Linear(3, 4, bias=False)], (3,), r"layer 0 \(Linear\): it has no bias"),
        ([nn.Conv1d(4, 4, 3, bias=False)], (4, 9), r"layer 0 \(Conv1d\): it has no bias"),
        ([Doubled(3, 4)], (3,), r"layer 0 \(Doubled\): unknown"),
        ([nn.Linear(3, 3), Residual(nn.Linear(3, 3))], (3,), r"layer 1 \(Residual\): .* forward"),
        ([hooked(nn.Linear(3, 4))], (3,), r"layer 0 \(Linear\): it has hooks"),
        ([TWICE, nn.ReLU(), TWICE], (3,), r"layer 2 \(Linear\): it shares its weight with layer 0"),
        ([nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular")], (4, 9), "padding_mode is set"),
        ([nn.Conv1d(4, 4, 3, groups=2)], (4, 9), r"layer 0 \(Conv1d\): groups"),
        ([nn.Conv1d(4, 4, 3, dilation=2)], (4, 9), r"layer 0 \(Conv1d\): groups, dilation"),
        ([nn.Conv1d(4, 4, 3, padding="same")], (4, 9), r"layer 0 \(Conv1d\): padding"),
        ([nn.Conv1d(3, 4, 3)], (4, 9), r"layer 0 \(Conv1d\): its input has 4 channels"),
        ([nn.Conv1d(4, 4, 3), nn.Linear(28, 2)], (4, 9), r"layer 1 \(Linear\).*put Flatten"),
        ([nn.Conv1d(4, 4, 3), nn.MaxPool1d(2, ceil_mode=True)], (4, 9), r"layer 1 \(MaxPool1d\)"),
        ([nn.Sequential(nn.Linear(3, 4), nn.Tanh())], (3,), r"layer 0\.1 \(Tanh\)"),
        ([nn.ReLU()], (3,), "no layer with parameters"),
    ],
)
def test_refusals_name_the_layer(
    layers: list[nn.Module], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        from_torch(nn.Sequential(*layers), shape)
