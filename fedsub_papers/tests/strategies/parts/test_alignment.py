"""Units brought to another model's by optimal transport: numbers that can be checked in one's head.

The model is 2 inputs (or 1), one hidden layer, one output, without biases.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.model import Model
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import Member, UnitGroup, first_units
from fedsub_papers.strategies.parts.alignment import aligned, check_groups, plan
from tests.fedsub_core.models.modules import MODULES

CHAINS = mlp(3, 4, (16, 24)), cnn1d(2, 64, 3)


def brought(
    own: dict[str, Tensor], other: dict[str, Tensor], keep_sums: bool = False, exact: bool = True
) -> dict[str, Tensor]:
    groups, like = (
        mlp(one["linear1.weight"].shape[1], 1, (len(one["linear1.weight"]),)).unit_groups
        for one in (own, other)
    )
    return aligned(own, other, groups, like, keep_sums, exact)


def model(rows: list[list[float]], following: list[list[float]]) -> dict[str, Tensor]:
    return {
        "linear1.weight": torch.tensor(rows),
        "linear1.bias": torch.zeros(len(rows)),
        "linear2.weight": torch.tensor(following),
        "linear2.bias": torch.zeros(len(following)),
    }


@pytest.mark.parametrize("exact", [True, False])
def test_rows_that_are_swapped_are_swapped_back(exact: bool) -> None:
    cost = torch.cdist(torch.eye(2), torch.eye(2).flip(0))
    found = plan(cost, exact)
    torch.testing.assert_close(
        found, torch.tensor([[0.0, 0.5], [0.5, 0.0]]).double(), atol=1e-6, rtol=0
    )
    own = model([[1.0, 0.0], [0.0, 1.0]], [[3.0, 4.0]])
    other = model([[0.0, 1.0], [1.0, 0.0]], [[4.0, 3.0]])
    for name, tensor in brought(own, other, exact=exact).items():
        torch.testing.assert_close(tensor, other[name], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("keep_sums", "following"), [(False, [[1.5, 3.5]]), (True, [[3.0, 7.0]])])
def test_four_units_become_two(keep_sums: bool, following: list[list[float]]) -> None:
    whole = model([[0.0], [0.1], [1.0], [1.1]], [[1.0, 2.0, 3.0, 4.0]])
    found = brought(whole, model([[0.0], [1.0]], [[0.0, 0.0]]), keep_sums)
    torch.testing.assert_close(found["linear1.weight"], torch.tensor([[0.05], [1.05]]))
    torch.testing.assert_close(found["linear2.weight"], torch.tensor(following))


@pytest.mark.parametrize(
    ("keep_sums", "following"),
    [(False, [[3.0, 3.0, 7.0, 7.0]]), (True, [[1.5, 1.5, 3.5, 3.5]])],
)
def test_two_units_become_four(keep_sums: bool, following: list[list[float]]) -> None:
    small = model([[0.0], [1.0]], [[3.0, 7.0]])
    whole = model([[0.0], [0.1], [1.0], [1.1]], [[0.0] * 4])
    found = brought(small, whole, keep_sums)
    torch.testing.assert_close(found["linear1.weight"], torch.tensor([[0.0], [0.0], [1.0], [1.0]]))
    torch.testing.assert_close(found["linear2.weight"], torch.tensor(following))


def permuted(model: Model, params: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the same function with its units in another order."""
    found = dict(params)
    for group in model.unit_groups:
        order = torch.randperm(group.size).numpy()
        for member in (m for m in group.members if m.tensor in found):
            owned = np.flatnonzero(member.owners >= 0)
            own = np.argsort(member.owners, kind="stable")[-len(owned) :].reshape(group.size, -1)
            entries = np.arange(len(member.owners))
            entries[own] = own[order]
            found[member.tensor] = found[member.tensor].index_select(
                member.axis, torch.from_numpy(entries)
            )
    return found


class Beside(nn.Module):
    """Two layers side by side, read as one, and two that are added."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(shape[0], 4), nn.Linear(shape[0], 6)
        self.one, self.two = nn.Linear(10, 6), nn.Linear(10, 6)
        self.last = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = torch.cat([self.left(x), self.right(x)], 1).relu()
        logits: Tensor = self.last((self.one(x) + self.two(x)).relu())
        return logits


class Tied(nn.Module):
    """An embedding that is the output layer, too."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.mix = nn.Linear(4, 4)
        self.last = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ids ``x [batch, length]``."""
        seen = self.mix(self.words(x.long()).mean(1)).relu()
        logits: Tensor = self.last(nn.functional.linear(seen, self.words.weight))
        return logits


def tied(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Tied()


def frozen(shape: tuple[int, ...], classes: int) -> nn.Module:
    first = nn.Linear(shape[0], 6).requires_grad_(False)
    return nn.Sequential(first, nn.ReLU(), nn.Linear(6, classes))


def module(name: str) -> TorchModel:
    return TorchModel.of(MODULES[name], (5,) if name == "normalised" else (3, 16), 3)


MODELS = {
    "mlp": CHAINS[0],
    "cnn1d": CHAINS[1],
    **{name: module(name) for name in MODULES},
    "tied": TorchModel.of(tied, (6,), 3),
    "beside": TorchModel.of(Beside, (5,), 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_permuted_copy_comes_back(name: str) -> None:
    model = MODELS[name]
    params = {n: t[0] for n, t in model.init(1, seed=3).items()}
    stream = torch.Generator().manual_seed(4)
    for tensor, values in params.items():
        if "norm" in tensor or ".running" in tensor:  # drawn alike for all units
            params[tensor] = torch.rand(values.shape, generator=stream) + 0.5
    mixed, groups = permuted(model, params), model.unit_groups
    x = torch.randn(1, 4, *model.input_shape, generator=stream)
    if name == "tied":
        x = torch.randint(0, 9, (1, 4, 6), generator=stream)
    same, other = (
        model.forward({n: t[None] for n, t in one.items()}, x) for one in (params, mixed)
    )
    torch.testing.assert_close(other, same, atol=1e-4, rtol=1e-4)
    assert sum(not torch.equal(mixed[n], t) for n, t in params.items()) > 2
    for tensor, values in aligned(mixed, params, groups, groups).items():
        torch.testing.assert_close(values, params[tensor], atol=1e-6, rtol=0, msg=tensor)


@pytest.mark.parametrize("keep_sums", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_smaller_model_and_back(name: str, keep_sums: bool) -> None:
    """Shapes are the other model's, and numbers stay between those they come from."""
    whole = MODELS[name]
    small, places = whole.narrow(first_units(whole, 0.5))
    params = {n: t[0] for n, t in whole.init(1, seed=3).items()}
    part = {n: places[n].take(t) for n, t in params.items()}
    groups, like = whole.unit_groups, small.unit_groups
    for found, expected in (
        (aligned(params, part, groups, like, keep_sums), small),
        (aligned(part, params, like, groups, keep_sums), whole),
    ):
        assert {n: tuple(t.shape) for n, t in found.items()} == dict(expected.tensor_shapes)
        assert all(torch.isfinite(tensor).all() for tensor in found.values())
        for tensor, values in found.items():
            if not keep_sums:
                assert values.min() >= params[tensor].min() - 1e-6
                assert values.max() <= params[tensor].max() + 1e-6
    # The model itself is nearest to its own units.
    first = groups[0].members[0].tensor
    back = aligned(part, params, like, groups)[first]
    assert torch.equal(places[first].take(back), part[first])


def test_units_that_are_added_have_one_plan() -> None:
    """A residual stream's units are moved alike in all layers that make or read them."""
    model = module("convolved")
    ours, theirs = ({n: t[0] for n, t in model.init(1, seed=s).items()} for s in (1, 2))
    groups = model.unit_groups
    found = aligned(ours, theirs, groups, groups)
    cost = torch.cdist(ours["stem.weight"].flatten(1), theirs["stem.weight"].flatten(1))
    order = plan(cost).argmax(0)
    torch.testing.assert_close(found["stem.weight"], ours["stem.weight"][order])
    torch.testing.assert_close(found["last.weight"], ours["last.weight"][:, order])
    inner = found["second.weight"]
    units = [ours["second.weight"][order][:, i] for i in range(8)]
    assert all(any(torch.allclose(inner[:, j], u) for u in units) for j in range(8))


def test_units_without_trained_weights_are_refused() -> None:
    model = TorchModel.of(frozen, (5,), 3)
    with pytest.raises(ConfigError, match="units of 0 have none, as where the layer is frozen"):
        check_groups(model.unit_groups, model.parameter_shapes)
    check_groups(MODELS["beside"].unit_groups, MODELS["beside"].parameter_shapes)


def test_units_that_own_unequally_much_are_refused() -> None:
    group = UnitGroup("a", 2, (Member("a.weight", 0, np.array([0, 1, 1])),))
    with pytest.raises(ConfigError, match=r"units of a own 1 to 2 entries of a\.weight, axis 0"):
        check_groups((group,), {"a.weight": (3, 4)})


def doubled(group: UnitGroup) -> UnitGroup:
    units = np.arange(2 * group.size)
    members = (replace(m, owners=units.repeat(len(m.owners) // group.size)) for m in group.members)
    return replace(group, size=len(units), members=tuple(members))


@pytest.mark.parametrize("chain", CHAINS, ids=["mlp", "cnn1d"])
def test_with_sums_a_model_of_doubled_units_becomes_the_single_one(chain: Chain) -> None:
    params, layers = {n: t[0] for n, t in chain.init(1, seed=3).items()}, chain.layer_names
    groups = chain.unit_groups
    double: dict[str, Tensor] = {}
    before = 0
    for layer in layers:
        weight, bias = params[f"{layer}.weight"], params[f"{layer}.bias"]
        if before:
            # Two units see what one saw: each counts half.
            halves = weight.reshape(len(weight), before, -1).repeat_interleave(2, 1) / 2
            weight = halves.reshape(len(weight), -1, *weight.shape[2:])
        before = len(weight)
        if layer != layers[-1]:
            weight, bias = weight.repeat_interleave(2, 0), bias.repeat_interleave(2, 0)
        double[f"{layer}.weight"], double[f"{layer}.bias"] = weight, bias
    for name, tensor in aligned(
        double, params, [*map(doubled, groups)], groups, keep_sums=True
    ).items():
        torch.testing.assert_close(tensor, params[name], atol=1e-6, rtol=0)
