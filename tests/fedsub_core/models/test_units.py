"""Sub-models of chains: which units, what each owns, counting; a part trains as under a mask."""

from math import prod

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model, cnn1d, mlp
from fedsub_core.models.model import Model
from fedsub_core.models.units import Units, first_units
from fedsub_core.placement import Placement
from fedsub_core.training import CE, Masked, TrainingSettings, Turn, train

from .parts import held, placed, some_units, taken

MODELS: dict[str, Model] = {
    "mlp": mlp(3, 6),
    "cnn1d": cnn1d(9, 128, 6),
    "mlp on windows": build_model("mlp", (2, 5), 3),
}


def count(model: Model, units: Units) -> int:
    """How many numbers a sub-model has, by its own shapes and by its placements."""
    small, places = model.narrow(units)
    found: int = sum(at.count(model.parameter_shapes[name]) for name, at in places.items())
    assert found == sum(prod(shape) for shape in small.parameter_shapes.values())
    return found


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_part_computes_what_the_masked_model_computes(model: Model) -> None:
    params, units = model.init(2, seed=1), some_units(model, 3)
    small, places = model.narrow(units)
    masks = held(model, places)
    masked = {key: tensor * masks[key] for key, tensor in params.items()}
    x = torch.randn(2, 4, *model.input_shape)
    passes = [
        one.training_pass(numbers, x).outputs
        for one, numbers in ((small, taken(params, places)), (model, masked))
    ]
    assert len(passes[0]) == 1 + len(getattr(model, "branches", ()))
    for part, whole in zip(*passes, strict=True):
        torch.testing.assert_close(part, whole)
    assert count(model, units) == sum(int(mask.sum()) for mask in masks.values())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_placing_back_is_the_inverse_of_taking(model: Model) -> None:
    params, units = model.init(2, seed=1), some_units(model, 3)
    _, places = model.narrow(units)
    sliced = taken(params, places)
    back = placed(params, places, sliced)
    assert all(torch.equal(back[key], params[key]) for key in params)
    masks = held(model, places)
    new = placed(params, places, {key: t + 1 for key, t in sliced.items()})
    for key, tensor in params.items():
        assert torch.equal(new[key][:, masks[key]], tensor[:, masks[key]] + 1)
        assert torch.equal(new[key][:, ~masks[key]], tensor[:, ~masks[key]])


def test_a_weak_device_trains_the_small_model() -> None:
    """Training the part equals training the full-size model under its mask, within 1e-6."""
    model = cnn1d(2, 40, 4)
    rng = np.random.default_rng(0)
    data = stack(
        ["anna", "ben"],
        [rng.standard_normal((n, 2, 40), np.float32) for n in (50, 33)],
        [rng.integers(0, 4, n) for n in (50, 33)],
    )
    params, units = model.init(2, seed=1), some_units(model, 3)
    small, places = model.narrow(units)
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


def test_sizes_of_nested_parts() -> None:
    """HeteroFL's widths of our models: which share of all numbers a part has."""
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
    _, places = model.narrow({"conv2": np.array([0, 5])})
    assert places["linear1.weight"] == Placement(columns=np.array([*range(4), *range(20, 24)]))
    assert places["conv2.weight"] == Placement(rows=np.array([0, 5]))
    assert places["conv1.weight"].everywhere and places["linear2.bias"].everywhere


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ({"linear9": [0]}, "'linear9': expected a group of linear1, linear2"),
        ({"linear3": [0, 1]}, "'linear3': expected a group of linear1, linear2"),
        ({"linear1": [1, 0]}, r"linear1: got \[1, 0\], expected ascending ones below 128"),
        ({"linear1": [0, 128]}, "ascending ones below 128"),
        ({"linear1": [-1, 4]}, "ascending ones below 128"),
        ({"linear1": []}, "ascending ones below 128"),
    ],
)
def test_units_that_cannot_be_are_refused(units: dict[str, list[int]], words: str) -> None:
    wanted: dict[str, NDArray[np.int64]] = {
        name: np.array(kept, dtype=np.int64) for name, kept in units.items()
    }
    with pytest.raises(ConfigError, match=words):
        mlp(3, 6).narrow(wanted)
