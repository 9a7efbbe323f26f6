"""Which layers of a module have units, and what a unit owns."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from fedsub.testing.refusals import refused
from fedsub_client.methods.fedsub.relevance import unit_relevance
from fedsub_client.methods.fedsub.subnetworks import integrate, union_rows
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import UnitRows
from fedsub_core.models.kinds import mlp
from fedsub_core.models.model import unit_rows
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.wire.bundles import Bundle

from .modules import Recurrent, ResidualCNN, Shape, normalised

CLASSES = 4


def of(build: type[nn.Module], shape: Shape = (3, 40), norm: str = "averaged") -> TorchModel:
    return TorchModel.of(build, shape, CLASSES, norm)


def rows(model: TorchModel, layer: str) -> dict[str, tuple[tuple[str, ...], int]]:
    (found,) = [one for one in model.affine if one.name == layer]
    return {own.name: (own.tensors, own.width) for own in found.rows}


def test_layers_as_they_compute_with_the_norm_behind_them() -> None:
    model = of(ResidualCNN)
    assert [layer.name for layer in model.affine] == ["stem", "first", "second", "last"]
    assert [layer.units for layer in model.affine] == [8, 8, 8, CLASSES]
    assert rows(model, "second") == {
        "second.weight": (("second.weight",), 24),
        "norm3.weight": (("norm3.weight",), 1),
        "norm3.bias": (("norm3.bias",), 1),
        "norm3.running_mean": (("norm3.running_mean",), 1),
        "norm3.running_var": (("norm3.running_var",), 1),
    }
    assert rows(model, "last") == {"last.weight": (("last.weight", "last.bias"), 9)}


@pytest.mark.parametrize(
    ("norm", "travel"),
    [
        ("averaged", {"weight", "bias", "running_mean", "running_var"}),
        ("static", {"weight", "bias"}),
        ("local", set()),
    ],
)
def test_what_of_a_norm_is_a_units_is_as_the_run_says(norm: str, travel: set[str]) -> None:
    found = rows(of(ResidualCNN, norm=norm), "stem")
    assert found.keys() == {"stem.weight"} | {f"norm1.{part}" for part in travel}


@pytest.mark.parametrize(("build", "shape"), [(normalised, (3, 40))])
def test_all_that_is_trained_of_these_is_some_units_once(
    build: type[nn.Module], shape: Shape
) -> None:
    """The wire and the server's memory hold a model, not two."""
    model = of(build, shape)
    own = [name for layer in model.affine for row in layer.rows for name in row.tensors]
    assert sorted(own) == sorted(model.parameter_shapes)
    numbers = sum(layer.units * row.width for layer in model.affine for row in layer.rows)
    assert 4 * numbers == model.full_bytes


def test_what_is_frozen_is_no_units() -> None:
    def build(shape: Shape, classes: int) -> nn.Module:
        module = ResidualCNN(shape, classes)
        module.stem.requires_grad_(False)
        module.norm1.requires_grad_(False)
        module.norm2.requires_grad_(False)
        module.second = nn.Conv1d(8, 8, 3, padding=1)
        module.second.weight.requires_grad_(False)
        return module

    model = TorchModel.of(build, (3, 40), CLASSES)
    # Of `second` the bias alone is trained: it stays at home.
    assert [layer.name for layer in model.affine] == ["first", "last"]
    data = stack(["one"], [np.ones((4, 3, 40), np.float32)], [np.arange(4)])
    params = model.init(1, 0)
    for rule in ("naive", "lrp-a2b1"):
        relevance, _ = unit_relevance(model, params, data, rule, "logits")
        assert list(relevance) == ["first", "last"]
    found = rows(model, "first")
    assert found.keys() == {"first.weight", "norm2.running_mean", "norm2.running_var"}


def test_a_hidden_unit_of_an_lstm_owns_its_gates() -> None:
    model = of(Recurrent)
    tensors = tuple(f"lstm.{kind}_l0" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    assert rows(model, "lstm.l0") == {"lstm.weight_ih_l0": (tensors, 4 * (3 + 10 + 2))}
    (own,) = model.affine[0].rows
    params = model.init(1, 0)
    row = unit_rows(params, own)[0, 7]
    expected = [params[name][0].view(4, 10, -1)[:, 7].flatten() for name in tensors]
    assert torch.equal(row, torch.cat(expected))


@pytest.mark.parametrize("build", [ResidualCNN, Recurrent])
def test_rows_come_back_where_they_were_taken(build: type[nn.Module]) -> None:
    """What a client selects replaces these units of another's, and nothing else."""
    model = of(build)
    mine, theirs = model.init(1, 0), model.init(1, 1)
    for tensor in theirs.values():
        tensor += 0.5
    stream = torch.Generator().manual_seed(0)
    masks = {
        layer.name: torch.rand(1, CLASSES, layer.units, generator=stream) < 0.2
        for layer in model.affine
    }
    (sent,) = union_rows(model, theirs, masks)
    after = integrate(model, mine, [Bundle(tensors=sent)])
    for layer in model.affine:
        chosen = masks[layer.name].any(1)
        assert 0 < chosen.sum() < chosen.numel() or layer.units == CLASSES
        for own in layer.rows:
            expected = torch.where(chosen[:, :, None], unit_rows(theirs, own), unit_rows(mine, own))
            assert torch.equal(unit_rows(after, own), expected)


class Odd(nn.Module):
    """What no unit owns: an embedding of its own, both directions, a norm behind a sum."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(shape))
        self.both = nn.LSTM(shape[0], 4, batch_first=True, bidirectional=True)
        self.up = nn.Conv1d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ``x [batch, channels, time]``."""
        seen = self.both((x + self.start).transpose(1, 2))[0].transpose(1, 2)
        logits: Tensor = self.last(self.norm(seen + self.up(seen)).mean(2))
        return logits


def test_what_is_no_units_is_in_no_rows() -> None:
    model = of(Odd)
    assert [layer.name for layer in model.affine] == ["up", "last"]
    own = {name for layer in model.affine for row in layer.rows for name in row.tensors}
    assert own == {"up.weight", "up.bias", "last.weight", "last.bias"}


def test_a_layer_that_computes_twice_is_one() -> None:
    class Twice(ResidualCNN):
        def forward(self, x: Tensor) -> Tensor:
            x = self.norm1(self.stem(x)).relu()
            for _ in range(2):
                x = self.norm2(self.first(x)).relu()
            logits: Tensor = self.last(x.mean(2))
            return logits

    assert [layer.name for layer in of(Twice).affine] == ["stem", "first", "last"]


def _no_linear(shape: Shape, classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(3, classes, 40), nn.Flatten(), nn.LayerNorm(classes))


def test_errors_name_the_layer() -> None:
    class TimeFirst(nn.Module):
        def __init__(self, shape: Shape, classes: int) -> None:
            super().__init__()
            self.each, self.last = nn.Linear(shape[0], 5), nn.Linear(5, classes)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.last(self.each(x.permute(2, 0, 1)).mean(0))
            return logits

    with refused(ConfigError, "TimeFirst", "layer each", expected="samples"):
        _ = of(TimeFirst).affine
    with refused(ConfigError, "2", expected="Linear"):
        _ = TorchModel.of(_no_linear, (3, 40), CLASSES).affine

    class Computed(ResidualCNN):
        def __init__(self, shape: Shape, classes: int) -> None:
            super().__init__(shape, classes)
            self.last = weight_norm(nn.Linear(8, classes))

    with pytest.raises(ConfigError, match=r"Computed, .*expected a"):
        _ = of(Computed).affine


def test_a_chains_rows_are_its_layers() -> None:
    first = mlp(4, 3, (5,)).affine[0]
    assert first.rows == (UnitRows("linear1", ("linear1.weight", "linear1.bias"), 5),)
