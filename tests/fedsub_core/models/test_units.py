"""Sub-models: slicing, placing back, counting; and that training a slice is training a mask."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import pytest
import torch

from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, require_chain
from fedsub_core.models.kinds import build_model, cnn1d, mlp
from fedsub_core.models.model import Params
from fedsub_core.models.units import Units, first_units, narrow
from fedsub_core.placement import Placement
from fedsub_core.training import CE, Masked, TrainingSettings, Turn, train

MODELS = {
    "mlp": mlp(3, 6),
    "cnn1d": cnn1d(9, 128, 6),
    "mlp on windows": require_chain(build_model("mlp", (2, 5), 3)),
}


def some_units(model: Chain, seed: int) -> Units:
    """Choose about half of every hidden layer's units."""
    stream = torch.Generator().manual_seed(seed)
    return {
        layer.name: (torch.rand(layer.units, generator=stream) < 0.5).nonzero().flatten()
        for layer in model.affine[:-1]
    }


def held(model: Chain, places: Mapping[str, Placement]) -> dict[str, torch.Tensor]:
    """Which numbers of each tensor a sub-model has, bool."""
    shapes = model.parameter_shapes
    return {name: torch.from_numpy(at.held(shapes[name])) for name, at in places.items()}


def taken(params: Params, places: Mapping[str, Placement]) -> Params:
    """The sub-model's parameters [clients, ...]."""
    return {name: at.take(params[name], stacked=1) for name, at in places.items()}


def placed(params: Params, places: Mapping[str, Placement], narrow: Params) -> Params:
    """Parameters with a sub-model's numbers in their places."""
    return {n: at.put(params[n].clone(), narrow[n], stacked=1) for n, at in places.items()}


def count(model: Chain, units: Units) -> int:
    """How many numbers a sub-model has, by its own shapes and by its placements."""
    small, places = narrow(model, units)
    found = sum(at.count(model.parameter_shapes[name]) for name, at in places.items())
    assert found == sum(prod(shape) for shape in small.parameter_shapes.values())
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_slice_computes_what_the_masked_model_computes(name: str) -> None:
    model = MODELS[name]
    params, units = model.init(2, seed=1), some_units(model, 3)
    small, places = narrow(model, units)
    masks = held(model, places)
    masked = {key: tensor * masks[key] for key, tensor in params.items()}
    x = torch.randn(2, 4, *model.input_shape)
    expected = model.forward(masked, x)
    torch.testing.assert_close(small.forward(taken(params, places), x), expected)
    assert count(model, units) == sum(int(mask.sum()) for mask in masks.values())


@pytest.mark.parametrize("name", MODELS)
def test_placing_back_is_the_inverse_of_slicing(name: str) -> None:
    model = MODELS[name]
    params, units = model.init(2, seed=1), some_units(model, 3)
    _, places = narrow(model, units)
    sliced = taken(params, places)
    back = placed(params, places, sliced)
    assert all(torch.equal(back[key], params[key]) for key in params)
    masks = held(model, places)
    new = placed(params, places, {key: t + 1 for key, t in sliced.items()})
    for key, tensor in params.items():
        assert torch.equal(new[key][:, masks[key]], tensor[:, masks[key]] + 1)
        assert torch.equal(new[key][:, ~masks[key]], tensor[:, ~masks[key]])


def test_a_weak_device_trains_the_small_model() -> None:
    """Training the slice equals training the full-size model under its mask, within 1e-6."""
    model = cnn1d(2, 40, 4)
    rng = np.random.default_rng(0)
    data = stack(
        ["anna", "ben"],
        [rng.standard_normal((n, 2, 40), np.float32) for n in (50, 33)],
        [rng.integers(0, 4, n) for n in (50, 33)],
    )
    params, units = model.init(2, seed=1), some_units(model, 3)
    small, places = narrow(model, units)
    masks = {key: mask.expand(2, *mask.shape) for key, mask in held(model, places).items()}
    masked = {key: tensor * masks[key] for key, tensor in params.items()}
    turn, settings = Turn(1, 1, 0), TrainingSettings(epochs=2, lr=0.05)
    sliced = taken(params, places)
    trained, _ = train(small, sliced, data, turn, settings)
    full, _ = train(model, masked, data, turn, settings, objective=CE + Masked(masks))
    back = placed(masked, places, trained)
    for key, tensor in full.items():
        torch.testing.assert_close(back[key], tensor, atol=1e-6, rtol=0)
        assert not torch.equal(tensor, masked[key]), "nothing was learned"
    assert sum(t.numel() for t in trained.values()) < 0.5 * sum(t.numel() for t in full.values())


def test_sizes_of_nested_slices() -> None:
    """HeteroFL's widths of our models: which share of all numbers a slice has."""
    for model, shares in (
        (mlp(3, 6), (0.574, 0.265, 0.074)),
        (cnn1d(9, 128, 6), (0.575, 0.266, 0.075)),
    ):
        whole = model.full_bytes / 4
        for width, share in zip((0.75, 0.5, 0.25), shares, strict=True):
            assert count(model, first_units(model, width)) / whole == pytest.approx(share, abs=5e-4)
    tiny = first_units(mlp(3, 6), 0.001)
    assert [len(kept) for kept in tiny.values()] == [1, 1], "a layer keeps one unit at least"
    assert len(first_units(mlp(3, 6, hidden=(10,)), 0.7)["linear1"]) == 7, "not 8, by rounding"


def test_channels_own_the_inputs_behind_flatten() -> None:
    model = cnn1d(1, 32, 3)  # conv2 gives 64 channels x 4 positions to linear1
    masks = held(model, narrow(model, {"conv2": torch.tensor([0, 5])})[1])
    assert masks["linear1.weight"].any(0).nonzero().flatten().tolist() == [
        0,
        1,
        2,
        3,
        20,
        21,
        22,
        23,
    ]


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ({"linear9": [0]}, "'linear9': expected one of linear1, linear2, linear3"),
        ({"linear1": [1, 0]}, r"linear1: got \[1, 0\], expected ascending ones below 128"),
        ({"linear1": [0, 128]}, "ascending ones below 128"),
        ({"linear1": [-1, 4]}, "ascending ones below 128"),
        ({"linear1": []}, "ascending ones below 128"),
        ({"linear3": [0, 1]}, "linear3: its outputs are the classes, keep all"),
    ],
)
def test_units_that_cannot_be_are_refused(units: dict[str, list[int]], words: str) -> None:
    wanted = {name: torch.tensor(kept, dtype=torch.int64) for name, kept in units.items()}
    with pytest.raises(ConfigError, match=words):
        narrow(mlp(3, 6), wanted)
