"""Models by name: ours, and those that an installed package offers."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import ConfigError
from fedsub_core.models import kinds, names
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import build_model, cnn1d, mlp
from fedsub_core.models.layers import Flatten, Linear, ReLU
from fedsub_core.models.names import resolve_kind
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.seeds import derive_seed


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
    head = nn.Linear(4 * (shape[1] - 4), classes)
    return nn.Sequential(nn.Conv1d(shape[0], 4, 5), nn.BatchNorm1d(4), nn.Flatten(), head)


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


def frozen(shape: tuple[int, ...], classes: int) -> nn.Module:
    made = two_layers(shape, classes)
    made[0].requires_grad_(False)
    return made


def double(shape: tuple[int, ...], classes: int) -> nn.Module:
    return two_layers(shape, classes).double()


class Tanh(ReLU):
    """A layer of one's own, which no file could name."""


def own_layer(shape: tuple[int, ...], classes: int) -> Chain:
    return Chain((Flatten(), Tanh(), Linear("last", classes, shape[0] * shape[1])), shape)


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


def test_hidden_layers_of_mlp_are_an_option() -> None:
    assert build_model("mlp", (18,), 4, hidden="64, 32,16") == mlp(18, 4, (64, 32, 16))
    assert build_model("mlp", (18,), 4, hidden="") == mlp(18, 4, ())
    settings = RunConfig(hidden="7").device_settings("fedavg")
    assert settings.hidden == RunConfig(hidden="7").server_settings("fedavg").hidden == "7"
    for text in ("64;32", "0", "64,", "1000000", "-3", "½"):
        with refused(ConfigError, "hidden", expected="units"):
            RunConfig(hidden=text)


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
    with refused(ConfigError, "'cnn1'", "'cnn1d'"):
        RunConfig(model="cnn1")


def test_a_file_without_a_builders_name_is_asked_for_it() -> None:
    with refused(ConfigError, "'my/mods.py'", expected="my/mods.py:NAME"):
        RunConfig(model="my/mods.py")


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
        (wrong_classes, r"model 'mine': got outputs of shape \(6,\), expected \(5,\): a logit"),
        (unflattened, r"model 'mine': got outputs of shape \(5, 16\), expected \(5,\)"),
        (own_layer, r"got layer .*Tanh\(\), expected Linear, Conv, Pool, ReLU, Flatten"),
        (double, r"model 'mine': parameter 0.weight: got torch.float64, expected torch.float32"),
        (recurrent, r"model 'mine': .* samples of shape \(3, 20\) end in"),
        (no_model, "model 'mine': got str, expected a torch.nn.Module"),
    ],
)
def test_what_is_no_model_is_refused(
    builder: Callable[..., Any], words: str, installed: Callable[..., None]
) -> None:
    installed(mine=builder)
    with pytest.raises(ConfigError, match=words):
        build_model("mine", (3, 20), 5)


@pytest.mark.parametrize("builder", [normalised, xavier, by_data, trained_before, frozen])
def test_what_no_chain_computes_exactly_is_trained_as_the_module_it_is(
    builder: Callable[..., nn.Module], installed: Callable[..., None]
) -> None:
    installed(mine=builder)
    model = build_model("mine", (3, 20), 5, seed=4)
    assert isinstance(model, TorchModel)
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(4, "", 0, "model"))
        expected = dict(builder((3, 20), 5).named_parameters())
    params = model.init(1, seed=4)
    assert params.keys() | model.constants.keys() >= expected.keys()
    for name, tensor in expected.items():
        own = params[name][0] if name in params else model.constants[name]
        assert torch.equal(own, tensor), f"{name} is not as the builder set it"


BUILDER = """from torch import nn
def small(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1], 3), nn.Tanh(),
                         nn.Linear(3, classes))
"""


def test_a_builder_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "own models.py"
    file.write_text(BUILDER)
    model = build_model(f"{file}:small", (3, 20), 5)
    assert isinstance(model, TorchModel) and model.parameter_shapes["3.weight"] == (5, 3)
    here = build_model(f"{__name__}:two_layers", (3, 20), 5)
    assert isinstance(here, Chain), "what a chain computes exactly is faster as one"
    file.write_text(BUILDER.replace("3)", "7)").replace("Linear(3", "Linear(7"))
    assert build_model(f"{file}:small", (3, 20), 5).parameter_shapes["3.weight"] == (5, 7)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nowhere.py:small", r"model 'nowhere.py:small': nowhere.py cannot be imported \(FileNot"),
        ("no_such_package.x:small", r"cannot be imported \(ModuleNotFoundError"),
        ("math:small", "got no small that can be called in math"),
        ("math:", r"got model 'math:', expected package.module:builder or file.py:builder"),
        ("a b:small", "got model 'a b:small', expected package.module:builder"),
    ],
)
def test_a_place_without_a_builder_is_refused(kind: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_model(kind, (3, 20), 5)


def test_a_chain_has_no_norms_to_send_anywhere() -> None:
    with pytest.raises(ConfigError, match="norm: got 'local', expected 'averaged'"):
        build_model("mlp", (4,), 3, norm="local")
