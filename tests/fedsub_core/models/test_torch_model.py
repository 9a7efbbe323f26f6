"""Any module as a model: as PyTorch trains it, alone and in any stack, and what is exchanged."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsub.testing.refusals import refused
from fedsub.testing.runs import positions
from fedsub_core.data.stacks import Stack, select_params, stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.model import Params
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.seeds import derive_seed
from fedsub_core.training import CE, Pull, TrainingSettings, Turn, train
from fedsub_core.training.batches import Streams
from fedsub_core.training.passes import Passes, order_of_epoch

from .modules import MODULES, Residual, normalised

SHAPE, CLASSES, TURN = (3, 40), 4, Turn(2, 5, 7)
SETTINGS = TrainingSettings(epochs=2, lr=0.05, batch_size=8)
#: Of the second client the last batch has one sample.
COUNTS = (21, 17, 8)
BEFORE_A_NORM = "normalised", "0.bias"


def model_of(name: str, norm: str = "averaged", shape: tuple[int, ...] = SHAPE) -> TorchModel:
    return TorchModel.of(MODULES[name], shape, CLASSES, norm, seed=5)


def samples(counts: tuple[int, ...] = COUNTS) -> Stack:
    stream = np.random.default_rng(1)
    xs = [stream.standard_normal((n, *SHAPE), np.float32) for n in counts]
    ys = [stream.integers(0, CLASSES, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


def plain_loop(model: TorchModel, start: Params, data: Stack, i: int) -> dict[str, Tensor]:
    """Return the module's numbers after PyTorch's own loop over the `i`-th client's batches."""
    module = model.as_module({name: tensor[i] for name, tensor in start.items()}).train()
    for name, tensor in module.named_parameters():
        tensor.requires_grad_(name in model.trained)
    descent = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], 0.05, 0.9)
    size = SETTINGS.batch_size
    for stream in Passes(2, size).streams:
        order = order_of_epoch(data, size, TURN, stream)[0][i, : data.counts[i]]
        batches = list(torch.split(order, size))
        if model.fewest_samples > 1 and len(batches[-1]) == 1:
            batches[-2:] = [torch.cat(batches[-2:])]
        for number, batch in enumerate(batches):
            torch.manual_seed(Streams(TURN, (data.clients[i],), stream, number).seeds()[0])
            descent.zero_grad()
            F.cross_entropy(module(data.x[i, batch]), data.y[i, batch]).backward()  # type: ignore[no-untyped-call]
            descent.step()
    return dict(module.named_parameters()) | dict(module.named_buffers())


@pytest.mark.parametrize("name", MODULES)
def test_training_is_pytorchs_own(name: str) -> None:
    model, data = model_of(name), samples()
    start, before = model.init(len(COUNTS), seed=3), positions()
    trained, loss = train(model, start, data, TURN, SETTINGS)
    assert positions() == before, "the global stream was drawn from"
    assert loss.isfinite().all()
    for i in range(len(COUNTS)):
        expected = plain_loop(model, start, data, i)
        for key, tensor in trained.items():
            torch.testing.assert_close(tensor[i], expected[key], atol=1e-6, rtol=1e-5)
            # A norm takes away what a bias before it adds.
            moved = not torch.equal(tensor[i], start[key][i]) or (name, key) == BEFORE_A_NORM
            assert moved, f"{key} did not move"


@pytest.mark.parametrize("name", MODULES)
def test_a_client_trains_alike_in_any_stack(name: str) -> None:
    model, data = model_of(name), samples()
    for i, count in enumerate(COUNTS):
        data.x[i, count:] = 1e6  # what padding holds must not matter
    start = model.init(len(COUNTS), seed=3)
    together = train(model, start, data, TURN, SETTINGS).params
    for i, count in enumerate(COUNTS):
        alone = Stack((f"c{i}",), data.x[i : i + 1, :count], data.y[i : i + 1, :count], (count,))
        got = train(model, select_params(start, [i]), alone, TURN, SETTINGS).params
        for key, tensor in got.items():
            assert torch.equal(tensor[0], together[key][i]), key
        logits = model.forward(got, alone.x)
        stacked = model.forward(select_params(together, [i]), data.x[i : i + 1])
        assert logits.shape == (1, count, CLASSES)
        torch.testing.assert_close(logits[0], stacked[0, :count], atol=1e-6, rtol=1e-6)


def test_frozen_numbers_are_neither_trained_nor_sent() -> None:
    model, data = model_of("residual"), samples()
    frozen = {"blocks.0.norm.weight", "blocks.0.norm.bias", "scale"}
    assert model.constants.keys() == frozen
    assert not frozen & {*model.parameter_shapes, *model.init(1, 0)}
    kept = {name: tensor.clone() for name, tensor in model.constants.items()}
    train(model, model.init(3, 0), data, TURN, SETTINGS)
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.constants.items())


def test_a_first_model_is_drawn_as_the_builder_does() -> None:
    model = model_of("recurrent")
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(9, "", 0, "model"))
        expected = dict(MODULES["recurrent"](SHAPE, CLASSES).named_parameters())
    for name, tensor in model.init(2, seed=9).items():
        assert torch.equal(tensor[0], expected[name]) and torch.equal(tensor[1], expected[name])


def test_a_builders_own_error_is_told_with_its_line() -> None:
    def careless(input_shape: Shape, classes: int) -> nn.Module:
        raise ValueError("my own bug")

    with refused(ConfigError, "ValueError", "my own bug") as caught:
        TorchModel.of(careless, SHAPE, CLASSES)
    assert f"{Path(__file__).name}, line " in str(caught.value)


STATISTICS = {"1.running_mean", "1.running_var"}


@pytest.mark.parametrize(
    ("norm", "home"),
    [
        ("averaged", set()),
        ("local", STATISTICS | {"1.weight", "1.bias"}),
        ("static", STATISTICS),
    ],
)
def test_norms_travel_as_the_run_says(norm: str, home: set[str]) -> None:
    model = model_of("normalised", norm)
    assert set(model.home_shapes) == home
    assert set(model.tensor_shapes) == home | set(model.parameter_shapes)
    assert set(model.tensor_shapes) >= STATISTICS
    assert not STATISTICS & set(model.trained)
    assert set(model.parameters_of(model.body())) == set(model.parameter_shapes) - {
        "6.weight",
        "6.bias",
    }


def test_static_norms_are_tested_with_ones_own_training_part() -> None:
    model, data = model_of("normalised", "static"), samples((21, 9))
    params = model.init(2, seed=1)
    settled = model.settled(params, data)
    assert settled.keys() == STATISTICS
    for i, count in enumerate(data.counts):
        seen = F.conv1d(data.x[i, :count], params["0.weight"][i], params["0.bias"][i], padding=2)
        torch.testing.assert_close(settled["1.running_mean"][i], seen.mean((0, 2)))
        torch.testing.assert_close(settled["1.running_var"][i], seen.var((0, 2)))
    assert model_of("normalised").settled(params, data) == {}


def test_norms_of_frozen_layers_stand_still() -> None:
    model, data = model_of("normalised"), samples()
    start = model.init(3, seed=3)
    trained = train(model, start, data, TURN, SETTINGS, only=model.head()).params
    changed = {name for name, tensor in trained.items() if not torch.equal(tensor, start[name])}
    assert changed == {"6.weight", "6.bias"}


def test_a_norm_needs_two_samples() -> None:
    model, data = model_of("normalised"), samples((5, 1))
    with refused(ConfigError, "client 'c1'", got="one training sample", expected="two"):
        train(model, model.init(2, 0), data, TURN, SETTINGS)
    train(model_of("recurrent"), model_of("recurrent").init(2, 0), data, TURN, SETTINGS)


@pytest.mark.parametrize("name", MODULES)
def test_a_head_on_a_body_is_the_whole(name: str) -> None:
    model, data = model_of(name), samples()
    params = model.init(3, seed=2)
    body, head = model.cut()
    embedding = body.forward(params, data.x)
    assert embedding.shape == (3, 21, model.embedding_size)
    whole = model.forward(params, data.x)
    torch.testing.assert_close(head.forward(params, embedding), whole, atol=1e-6, rtol=1e-5)
    seen = model.training_pass(params, data.x).embedding
    assert seen.shape == embedding.shape
    with pytest.raises(ConfigError, match="a head of 2 layers, expected one Linear"):
        model.cut(2)


def test_a_pull_adds_its_own_gradient() -> None:
    model, data = model_of("residual"), samples()
    start = model.init(3, seed=3)
    anchor = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
    one = TrainingSettings(epochs=1, lr=0.1, batch_size=32, momentum=0.0)
    free = train(model, start, data, TURN, one).params
    pulled = train(model, start, data, TURN, one, objective=CE + Pull(anchor, 0.5)).params
    for name, tensor in start.items():
        torch.testing.assert_close(pulled[name], free[name] - 0.05 * tensor, atol=1e-6, rtol=1e-5)


class Shifted(nn.Module):
    """Ends in something else than its last Linear layer."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(shape[1], classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(x.mean(1))
        return 2 * logits


def test_what_does_not_end_in_a_linear_layer_is_trained_whole() -> None:
    model = TorchModel.of(Shifted, SHAPE, CLASSES)
    trained = train(model, model.init(3, 0), samples(), TURN, SETTINGS).params
    assert set(trained) == {"last.weight", "last.bias"}
    with refused(ConfigError, expected="one Linear layer"):
        model.cut()


def broken(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(99, classes))


def counting(shape: tuple[int, ...], classes: int) -> nn.Module:
    norm = nn.BatchNorm1d(shape[0], momentum=None)
    return nn.Sequential(norm, nn.Flatten(), nn.Linear(shape[0] * shape[1], classes))


@pytest.mark.parametrize(
    ("build", "norm", "words"),
    [
        (lambda shape, classes: "a text", "averaged", "got str, expected a torch.nn.Module"),
        (broken, "averaged", r"samples of shape \(3, 40\) end in RuntimeError: mat1 and mat2"),
        (
            lambda shape, classes: Residual(shape, classes + 1),
            "averaged",
            r"got outputs of shape \(5,\), expected \(4,\): a logit a class",
        ),
        (lambda s, c: normalised(s, c).double(), "averaged", "got torch.float64, expected"),
        (counting, "averaged", "layer 0: got momentum=None"),
        (Residual, "static", "norm: got 'static', expected 'averaged': no layer of the model"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    build: Callable[..., nn.Module], norm: str, words: str
) -> None:
    before = positions()
    with pytest.raises(ConfigError, match=words):
        TorchModel.of(build, SHAPE, CLASSES, norm)
    assert positions() == before, "the global stream was drawn from"
