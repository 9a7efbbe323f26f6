"""One client's rows are not much farther from everybody's than others' are."""

import pytest
import torch
from torch import Tensor

from fedsub_core.models.kinds import mlp
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.centre import FARTHEST, nearer
from strategies.methods.fedsub.holdings import HeldPart, Holdings
from strategies.parts.roster import Roster

MODEL = mlp(4, 3, (6,))
LAYERS = {f"linear{i}": f"linear{i}" for i in (1, 2)}
PEOPLE = 10


def cache() -> Cache:
    """Ten clients whose rows begin from one model, and are each some way from there."""
    made = Cache.empty(Roster(tuple("abcdefghij")), MODEL, 4)
    for name, tensor in made.tensors.items():
        if name.startswith("rows."):
            shared = torch.randn(tensor.shape[1:])
            tensor.copy_(shared + 0.1 * torch.randn(tensor.shape))
        elif name.startswith("masks."):
            tensor.fill_(True)
    return made


def everybody(capacities: list[float] | None = None) -> Holdings:
    """Return who holds what: ten whole devices, or weak ones among them."""
    shares, of = torch.unique(torch.tensor(capacities or PEOPLE * [1.0]), return_inverse=True)
    return Holdings([HeldPart.of(MODEL, share) for share in shares.tolist()], of)


def away(rows: Tensor) -> Tensor:
    """Return how far rows [n, units, width] are from the mean of all but the first, [n]."""
    lengths: Tensor = torch.linalg.vector_norm((rows - rows[1:].mean(0)).flatten(1), dim=1)
    return lengths


def test_honest_ones_are_the_very_same() -> None:
    before = cache()
    before.tensors["rows.linear1"][1] = 0  # one who has selected nothing
    before.tensors["masks.linear1"][1] = False
    assert nearer(before, LAYERS, everybody()) is before


@pytest.mark.parametrize("liars", [1, 2])
def test_rows_that_are_all_one_come_as_near_as_others(liars: int) -> None:
    """They are no longer than honest ones, so that no bound on lengths cuts them."""
    before = cache()
    for name in ("rows.linear1", "rows.linear2"):
        rows = before.tensors[name]
        rows[:liars] = rows.norm(dim=-1).median() / rows.shape[-1] ** 0.5
    after = nearer(before, LAYERS, everybody())
    for name in ("rows.linear1", "rows.linear2"):
        was, now = away(before.tensors[name]), away(after.tensors[name])
        assert was[0] > FARTHEST * was[liars:].max()
        assert now[0] < 2 * now[liars:].max()
        assert torch.equal(after.tensors[name][liars:], before.tensors[name][liars:])


def test_one_layer_alone_may_be_far_where_the_others_are_not() -> None:
    before = cache()
    last = before.tensors["rows.linear2"]
    last[0] += 4 * (last[0] - last[1:].mean(0)) / 3
    assert nearer(before, LAYERS, everybody()) is before


def test_units_that_nobody_selected_and_numbers_that_nobody_holds_stay() -> None:
    before = cache()
    holdings = everybody([1.0] * 7 + [0.5] * 3)
    for i, part in enumerate(holdings.of.tolist()):
        for name in LAYERS:
            rows = before.tensors[f"rows.{name}"]
            held = torch.from_numpy(holdings.parts[part].rows[name].held(tuple(rows.shape[1:])))
            rows[i] *= held
            before.tensors[f"masks.{name}"][i] &= held.any(-1)
    before.tensors["masks.linear1"][9, :, 2] = False
    before.tensors["rows.linear1"][9] *= -20
    after = nearer(before, LAYERS, holdings).tensors["rows.linear1"]
    was = before.tensors["rows.linear1"]
    assert torch.equal(after[:9], was[:9])
    assert torch.equal(after[9, 2:], was[9, 2:])
    assert (after[9, :2].norm(dim=-1) < was[9, :2].norm(dim=-1) / 5).all()


def test_nobody_is_far_from_two() -> None:
    two = cache().only(torch.tensor([0, 1]))
    two.tensors["rows.linear1"][0] *= 100
    assert nearer(two, LAYERS, Holdings([HeldPart.of(MODEL, 1.0)], torch.tensor([0, 0]))) is two
