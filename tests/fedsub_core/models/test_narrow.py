"""Any model with some of its units: it computes what the whole one does with the others zeroed."""

import gc
import pickle
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fedsub.testing.refusals import refused
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError
from fedsub_core.models import torch_model
from fedsub_core.models.kinds import build_model
from fedsub_core.models.model import Model, Params
from fedsub_core.models.to_torch import to_torch
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import Units, first_units
from fedsub_core.placement import Placement
from fedsub_core.training import CE, Masked, TrainingSettings, Turn, train

from .coupling.passes import CLASSES, PASSES, WINDOW, Pass
from .modules import MODULES
from .parts import held, placed, some_units, taken

PUBLISHED = {
    "har-cnn": (9, 64),
    "lstm": (3, 30),
}
#: What has norms over units.
OVER_UNITS = ("residual", "normalised over")
SETTINGS, TURN = TrainingSettings(epochs=2, lr=0.05, batch_size=8), Turn(1, 1, 0)


def model_of(name: str, norm: str = "averaged") -> Model:
    if name in PASSES:
        build, shape, _ = PASSES[name]
        return TorchModel.of(lambda *_: build(), shape, CLASSES, norm)
    if name in MODULES:
        return TorchModel.of(MODULES[name], (3, 20), CLASSES, norm)
    return build_model(name, PUBLISHED[name], 5, norm)


def drawn(model: Model, clients: int) -> Params:
    """A first model whose statistics of norms are not 0 and 1."""
    params = model.init(clients, seed=1)
    moved = {n: t for n, t in params.items() if n.endswith(("running_mean", "running_var"))}
    return params | {name: torch.rand_like(t) + 0.5 for name, t in moved.items()}


def samples(model: Model, *counts: int) -> Stack:
    stream = np.random.default_rng(2)
    xs = [stream.uniform(0, 9, (n, *model.input_shape)).astype(np.float32) for n in counts]
    ys = [stream.integers(0, CLASSES, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


def masked(model: Model, params: Params, places: Mapping[str, Placement]) -> Params:
    masks = held(model, places)
    return {name: tensor * masks[name] for name, tensor in params.items()}


@pytest.mark.parametrize("name", sorted({*PUBLISHED, *MODULES, *PASSES} - {*OVER_UNITS}))
def test_it_computes_what_the_whole_does_with_the_others_zeroed(name: str) -> None:
    model = model_of(name)
    params, x = drawn(model, 2), samples(model, 3, 3).x
    whole = sum(t.numel() for t in params.values())
    for seed, share in ((0, 0.5), (1, 0.3)):
        small, places = model.narrow(some_units(model, seed, share))
        part = taken(params, places)
        assert {n: tuple(t.shape[1:]) for n, t in part.items()} == small.tensor_shapes
        assert sum(t.numel() for t in part.values()) < whole
        expected = model.forward(masked(model, params, places), x)
        torch.testing.assert_close(small.forward(part, x), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", sorted({*PUBLISHED, *MODULES, *PASSES}))
def test_its_units_are_those_of_the_whole_that_are_left(name: str) -> None:
    """Of one unit a pass no longer shows whether a mean or a softmax mixes units."""
    model = model_of(name)
    small, places = model.narrow({group.name: np.array([1]) for group in model.unit_groups})
    assert [(g.name, g.size) for g in small.unit_groups] == [(g.name, 1) for g in model.unit_groups]
    kept = {group.name: np.arange(0, group.size, 2) for group in model.unit_groups}
    half, places = model.narrow(kept)
    again, inner = half.narrow({name: units[:1] * 0 for name, units in kept.items()})
    first = model.narrow({name: np.array([0]) for name in kept})[0]
    assert again.tensor_shapes == first.tensor_shapes
    for tensor, at in places.items():
        assert half.tensor_shapes[tensor] == at.shape(model.tensor_shapes[tensor])
        assert again.tensor_shapes[tensor] == inner[tensor].shape(half.tensor_shapes[tensor])


class OverHeld(nn.Module):
    """A norm over the last axis, or over axis 1 and those behind it, of held units alone."""

    def __init__(self, norm: Any, units: Tensor) -> None:
        super().__init__()
        self.norm, self.units = norm, units

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x [batch, ...]``."""
        channels = isinstance(self.norm, nn.GroupNorm)
        x = x.movedim(1, -1) if channels else x
        own = x[..., self.units]
        axes = tuple(range(1, x.ndim)) if channels else (-1,)
        mean = 0.0 if isinstance(self.norm, nn.RMSNorm) else own.mean(axes, keepdim=True)
        power = (own - mean).square().mean(axes, keepdim=True)
        made = (x - mean) / (power + self.norm.eps).sqrt() * self.norm.weight
        made = made + self.norm.bias if getattr(self.norm, "bias", None) is not None else made
        out: Tensor = made.movedim(-1, 1) if channels else made
        return out


@pytest.mark.parametrize("name", OVER_UNITS)
def test_norms_over_units_are_of_those_that_are_left(name: str) -> None:
    model = model_of(name)
    assert isinstance(model, TorchModel)
    units = some_units(model, 3)
    small, places = model.narrow(units)
    params, x = drawn(model, 1), samples(model, 6).x
    module = model.as_module({n: t[0] for n, t in masked(model, params, places).items()})
    for group in model.unit_groups:
        for one in group.members:
            layer, _, part = one.tensor.rpartition(".")
            norm = module.get_submodule(layer)
            if part == "weight" and isinstance(norm, (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)):
                over = OverHeld(norm, torch.from_numpy(units[group.name]))
                parent, _, own = layer.rpartition(".")
                setattr(module.get_submodule(parent), own, over)
    assert any(isinstance(layer, OverHeld) for layer in module.modules())
    torch.testing.assert_close(
        small.forward(taken(params, places), x)[0], module(x[0]), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("name", ["dense", "in groups", "squeezed", "tokens", "bidirectional"])
def test_it_trains_as_the_whole_does_under_its_mask(name: str) -> None:
    model = model_of(name)
    data = samples(model, 20, 13)
    params, (small, places) = drawn(model, 2), model.narrow(some_units(model, 3))
    start = masked(model, params, places)
    masks = {n: m.expand(2, *m.shape) for n, m in held(model, places).items()}
    own = {n: masks[n] for n in model.trained}
    trained, _ = train(small, taken(params, places), data, TURN, SETTINGS)
    full, _ = train(model, start, data, TURN, SETTINGS, objective=CE + Masked(own))
    back = placed(start, places, trained)
    moved = 0
    for key, tensor in full.items():
        found = tensor * masks[key]
        torch.testing.assert_close(back[key] * masks[key], found, atol=2e-6, rtol=1e-5)
        moved += not torch.equal(tensor, start[key])
    assert moved > len(full) / 2


@pytest.mark.parametrize("name", ["lstm", "residual", "normalised", "up again"])
def test_its_first_model_has_the_numbers_of_the_wholes(name: str) -> None:
    model = model_of(name)
    for seed in (0, 1):  # of the same size, other units
        small, places = model.narrow(some_units(model, seed))
        for key, tensor in taken(model.init(2, seed=7), places).items():
            assert torch.equal(small.init(2, seed=7)[key], tensor), key


def test_constants_are_of_the_units_that_are_left() -> None:
    model = model_of("residual")
    assert isinstance(model, TorchModel)
    model.constants["scale"].copy_(torch.arange(12.0))
    model.constants["blocks.0.norm.bias"].copy_(torch.arange(12.0))
    for kept in ([1, 4, 11], [0, 2, 3]):
        small, _ = model.narrow({"stem": np.array(kept)})
        assert isinstance(small, TorchModel)
        assert small.constants["scale"].tolist() == kept
        assert small.constants["blocks.0.norm.bias"].tolist() == kept
        assert small.parameter_shapes["blocks.0.first.weight"] == (12, 3)
        assert not {"scale", "blocks.0.norm.bias"} & {*small.tensor_shapes}


@pytest.mark.parametrize(("norm", "home"), [("local", 4), ("static", 2)])
def test_norms_stay_at_home_in_it_too(norm: str, home: int) -> None:
    model = model_of("normalised", norm)
    small, places = model.narrow(first_units(model, 0.5))
    assert len(small.home_shapes) == home
    assert all(shape == (4,) for shape in small.home_shapes.values())
    assert places.keys() == small.tensor_shapes.keys() == model.tensor_shapes.keys()


def test_it_can_be_sent_to_a_process_cut_and_narrowed_again() -> None:
    model = build_model("lstm", (3, 30), 5)
    small, places = model.narrow(first_units(model, 0.5))
    again = pickle.loads(pickle.dumps(small))
    assert torch.equal(again.init(1, 0)["lstm.weight_hh_l1"], small.init(1, 0)["lstm.weight_hh_l1"])
    body, head = small.cut()
    assert (body.output_shape, head.parameter_shapes["last.weight"]) == ((16,), (5, 16))
    least, inner = small.narrow(first_units(small, 0.5))
    assert least.parameter_shapes["lstm.weight_hh_l0"] == (4 * 16, 16)
    first = model.init(1, 0)["lstm.weight_hh_l0"]
    rows = inner["lstm.weight_hh_l0"].take(places["lstm.weight_hh_l0"].take(first, 1), 1)
    assert torch.equal(least.init(1, 0)["lstm.weight_hh_l0"], rows)


@pytest.mark.parametrize("name", ["lstm"])
def test_it_holds_nothing_of_the_whole_model(name: str) -> None:
    whole = model_of(name)
    assert isinstance(whole, TorchModel)
    module = weakref.ref(whole.module)
    small, places = whole.narrow(first_units(whole, 0.25))
    train(small, taken(whole.init(1, 0), places), samples(small, 8), TURN, SETTINGS)
    del whole
    gc.collect()
    assert module() is None and small.full_bytes


def multiplications(model: Model) -> int:
    """How many a pass of one sample takes, as PyTorch counts."""
    module = to_torch(model, {name: t[0] for name, t in model.init(1, 0).items()})
    counter = FlopCounterMode(display=False)
    with counter:
        module(torch.zeros(1, *model.input_shape))
    return counter.get_total_flops()


def written_in(self: Any, x: Tensor) -> Any:
    """Say in numbers how large things are."""
    return self.last(self.conv(x).view(-1, 8 * 18))


def test_sizes_that_are_written_into_the_pass_are_refused() -> None:
    build = lambda *_: Pass(written_in, conv=nn.Conv1d(3, 8, 3), last=nn.Linear(144, 4))  # noqa: E731
    model = TorchModel.of(build, WINDOW, CLASSES)
    with refused(ConfigError, "some of its units", "x.flatten(1)"):
        model.narrow({"conv": np.arange(5)})


def test_what_cannot_be_followed_trains_all_the_same() -> None:
    build = lambda *_: Pass(  # noqa: E731
        lambda s, x: s.last(s.conv(x).roll(1, 1).mean(2)),
        conv=nn.Conv1d(3, 8, 3),
        last=nn.Linear(8, 4),
    )
    model = TorchModel.of(build, WINDOW, CLASSES)
    start = model.init(1, 0)
    trained = train(model, start, samples(model, 9), TURN, SETTINGS).params
    assert not torch.equal(trained["conv.weight"], start["conv.weight"])
    for ask in (lambda: first_units(model, 0.5), lambda: model.narrow({})):
        with refused(ConfigError, "model Pass", "roll"):
            ask()


def test_first_units_of_any_model() -> None:
    sizes: dict[float, Units] = {c: first_units(model_of("tokens"), c) for c in (0.01, 0.5, 1.0)}
    assert {c: [len(k) for k in kept.values()] for c, kept in sizes.items()} == {
        0.01: [1, 1],
        0.5: [3, 3],
        1.0: [6, 5],
    }
    assert all(k.tolist() == [*range(len(k))] for k in sizes[0.5].values())
    whole = model_of("tokens")
    _, places = whole.narrow(sizes[1.0])
    assert all(at.everywhere for at in places.values())


def test_smaller_models_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_model, "KEPT", 3)
    model = TorchModel.of(MODULES["normalised"], (4,), 3)
    for count in range(1, 9):
        model.narrow({"0": np.arange(count)})
        assert len(model._narrow) == min(count, 3)


@pytest.mark.parametrize(
    ("norm", "together"),
    [
        (nn.LayerNorm(6), True),
        (nn.RMSNorm(6), True),
        (nn.GroupNorm(1, 6), True),
        (nn.GroupNorm(3, 6), False),
        (nn.BatchNorm1d(6), False),
    ],
)
def test_a_group_says_whether_a_norm_is_over_its_units(norm: nn.Module, together: bool) -> None:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        first = nn.Linear(shape[0], 6)
        return nn.Sequential(first, norm, nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, classes))

    groups = TorchModel.of(build, (4,), 3).unit_groups
    assert [group.normed_together for group in groups] == [together, False]
