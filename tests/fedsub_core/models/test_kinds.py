"""Models by name: ours, and those that an installed package offers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from math import prod
from typing import Any

import pytest
import torch
from torch import nn

from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import ConfigError
from fedsub_core.models import kinds, names
from fedsub_core.models.chain import Model
from fedsub_core.models.kinds import build_model, cnn1d, mlp
from fedsub_core.models.layers import Flatten, Linear, ReLU
from fedsub_core.models.names import resolve_kind


def two_layers(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(shape[0], 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(4 * (shape[1] - 4), classes)
    )


def wrong_classes(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1], classes + 1))


def recurrent(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.LSTM(shape[0], classes))


def unflattened(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(shape[0], classes, 5))


def normalised(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(shape[0], 4, 5), nn.BatchNorm1d(4), nn.Flatten())


def xavier(shape: tuple[int, ...], classes: int) -> nn.Module:
    made = two_layers(shape, classes)
    nn.init.xavier_uniform_(made.get_parameter("3.weight"))
    return made


def by_data(shape: tuple[int, ...], classes: int) -> nn.Module:
    made = two_layers(shape, classes)
    made.get_parameter("0.bias").data.zero_()
    return made


def trained_before(shape: tuple[int, ...], classes: int) -> nn.Module:
    made = two_layers(shape, classes)
    made.load_state_dict({name: torch.ones(t.shape) for name, t in made.state_dict().items()})
    return made


def replaced(shape: tuple[int, ...], classes: int) -> nn.Module:
    made = two_layers(shape, classes)
    made[3].weight = nn.Parameter(torch.ones(made.get_parameter("3.weight").shape, device="cpu"))
    return made


def frozen(shape: tuple[int, ...], classes: int) -> nn.Module:
    made = two_layers(shape, classes)
    made[0].requires_grad_(False)
    return made


def double(shape: tuple[int, ...], classes: int) -> nn.Module:
    return two_layers(shape, classes).double()


class Tanh(ReLU):
    """A layer of one's own, which no file could name."""


def own_layer(shape: tuple[int, ...], classes: int) -> Model:
    return Model((Flatten(), Tanh(), Linear("last", classes, shape[0] * shape[1])), shape)


def no_model(shape: tuple[int, ...], classes: int) -> str:
    return "a text"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let builders seem to be offered by an installed package."""

    def offer(**builders: Callable[..., Any]) -> None:
        points = {}
        for name, builder in builders.items():
            point = EntryPoint(name, f"{__name__}:{builder.__name__}", names.GROUP)
            monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.attr])
            points[name] = point
        for module in (names, kinds):
            monkeypatch.setattr(module, "installed", lambda: points)

    return offer


def test_auto_goes_by_the_shape_of_samples() -> None:
    assert (resolve_kind("auto", (18,)), resolve_kind("auto", (3, 128))) == ("mlp", "cnn1d")
    assert resolve_kind("mlp", (3, 128)) == "mlp"
    assert build_model("auto", (3, 128), 6) == cnn1d(3, 128, 6)
    assert build_model("auto", (18,), 4) == mlp(18, 4)
    assert build_model("mlp", (3, 128), 6).affine == mlp(384, 6).affine


@pytest.mark.parametrize("shape", [(5,), (2, 7)])
def test_linear_is_softmax_regression(shape: tuple[int, ...]) -> None:
    model, x = build_model("linear", shape, 3), torch.randn(1, 4, *shape)
    assert model.parameter_shapes == {"linear1.weight": (3, prod(shape)), "linear1.bias": (3,)}
    params = model.init(1, seed=0)
    expected = x.flatten(2)[0] @ params["linear1.weight"][0].T + params["linear1.bias"][0]
    torch.testing.assert_close(model.forward(params, x)[0], expected)
    with pytest.raises(ConfigError, match="body and head both need one"):
        model.head()


def test_models_refuse_data_they_cannot_take() -> None:
    with pytest.raises(ConfigError, match=r"cnn1d wants windows.*\(18,\)"):
        build_model("cnn1d", (18,), 4)
    with pytest.raises(ConfigError, match="windows of 32 samples or more, got 8"):
        build_model("cnn1d", (3, 8), 4)


def test_an_unknown_kind_is_refused_where_it_is_configured() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'cnn'\. Did you mean 'cnn1d'\?"):
        RunConfig(model="cnn")


def test_a_torch_module_of_a_package_becomes_a_model(installed: Callable[..., None]) -> None:
    installed(mine=two_layers)
    before = torch.random.get_rng_state()
    model = build_model("mine", (3, 20), 5)
    assert torch.equal(before, torch.random.get_rng_state()), "the global stream was drawn from"
    assert RunConfig(model="mine").model == "mine"
    assert model.parameter_shapes == {
        "layer1.weight": (4, 3, 5),
        "layer1.bias": (4,),
        "layer2.weight": (5, 64),
        "layer2.bias": (5,),
    }
    x = torch.randn(2, 7, 3, 20)
    assert model.forward(model.init(2, seed=0), x).shape == (2, 7, 5)


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        (wrong_classes, r"outputs of shape \(6,\); expected .* outputs of shape \(5,\)"),
        (unflattened, r"outputs of shape \(5, 16\); expected .* outputs of shape \(5,\)"),
        (normalised, r"model 'mine': layer 1 \(BatchNorm1d\): normalisation is not trained here"),
        (xavier, r"model 'mine': layer 3 \(Linear\): its weight was set by the model's builder"),
        (by_data, r"layer 0 \(Conv1d\): its bias was set by the model's builder"),
        (trained_before, r"layer 0 \(Conv1d\): its weight was set by the model's builder"),
        (replaced, r"layer 3 \(Linear\): its weight was set by the model's builder"),
        (
            own_layer,
            r"got layer .*Tanh\(\), expected Linear, Conv, Pool, ReLU, Flatten",
        ),
        (frozen, r"layer 0 \(Conv1d\): its weight is frozen"),
        (double, r"layer 0 \(Conv1d\): its weight is torch.float64"),
        (recurrent, r"layer 0 \(LSTM\): unknown; supported: Linear"),
        (no_model, "got str, outputs of shape unknown; expected a torch.nn.Sequential"),
    ],
)
def test_what_is_no_model_is_refused(
    builder: Callable[..., Any], words: str, installed: Callable[..., None]
) -> None:
    installed(mine=builder)
    with pytest.raises(ConfigError, match=words):
        build_model("mine", (3, 20), 5)
