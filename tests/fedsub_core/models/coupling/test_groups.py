"""Units found by following a pass: which belong together, which are none, what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import require_chain
from fedsub_core.models.coupling.groups import unit_groups
from fedsub_core.models.kinds import build_model, cnn1d
from fedsub_core.models.to_torch import to_torch
from fedsub_core.models.units import Member, UnitGroup

from .passes import PASSES, WINDOW, Pass


def member(group: UnitGroup, tensor: str, axis: int) -> Member:
    """Return what a group owns of an axis of a tensor."""
    return next(one for one in group.members if (one.tensor, one.axis) == (tensor, axis))


@pytest.mark.parametrize("name", PASSES)
def test_units_that_stay_or_go_together_are_one_group(name: str) -> None:
    build, shape, sizes = PASSES[name]
    assert {group.name: group.size for group in unit_groups(build(), shape)} == sizes


@pytest.mark.parametrize(("kind", "shape"), [("mlp", (5,)), ("cnn1d", (9, 64))])
def test_a_followed_pass_shows_what_a_chain_says(kind: str, shape: tuple[int, ...]) -> None:
    chain = require_chain(build_model(kind, shape, 6))
    module = to_torch(chain, {name: t[0] for name, t in chain.init(1, 0).items()})
    for found, said in zip(unit_groups(module, shape), chain.unit_groups, strict=True):
        assert (found.name, found.size) == (said.name, said.size)
        assert len(found.members) == len(said.members)
        for one in said.members:
            seen = member(found, one.tensor, one.axis)
            assert seen.owners.tolist() == one.owners.tolist() and seen.reads == one.reads


def test_a_hidden_unit_owns_a_row_of_each_gate_and_the_columns_that_read_it() -> None:
    lstm = nn.LSTM(3, 2, batch_first=True, bidirectional=True)
    module = Pass(lambda self, x: self.last(self.lstm(x.mT)[0][:, -1]), lstm=lstm)
    module.last = nn.Linear(4, 5)
    (group,) = unit_groups(module, WINDOW)
    for tensor in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0_reverse"):
        assert member(group, f"lstm.{tensor}", 0).owners.tolist() == [0, 1] * 4
    assert member(group, "lstm.weight_hh_l0", 1).owners.tolist() == [0, 1]
    assert member(group, "last.weight", 1).owners.tolist() == [0, 1, 0, 1], "of both directions"


def test_a_channel_owns_the_columns_of_its_positions() -> None:
    chain = cnn1d(1, 32, 3)
    (_, conv2, _) = chain.unit_groups
    assert member(conv2, "linear1.weight", 1).owners.tolist() == [i // 4 for i in range(256)]


def test_inputs_and_classes_are_no_units() -> None:
    for name, (build, shape, _) in PASSES.items():
        groups = unit_groups(build(), shape)
        owned = {(one.tensor, one.axis) for group in groups for one in group.members}
        assert not {("last.weight", 0), ("last.bias", 0), ("out.weight", 0)} & owned, name
        assert ("conv.weight", 1) not in owned and ("embedding.weight", 0) not in owned, name


def test_the_module_stays_as_it_was() -> None:
    build, shape, _ = PASSES["squeezed"]
    module = build().train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    unit_groups(module, shape)
    assert all(torch.equal(before[name], t) for name, t in module.state_dict().items())
    assert module.training and not any(m._forward_hooks for m in module.modules())


def conv(does: Callable[[Any, Tensor], Any], **layers: nn.Module) -> nn.Module:
    """Return a module of a convolution of 8 channels and what is done after it."""
    return Pass(does, conv=nn.Conv1d(3, 8, 3), **layers)


def heads(self: Any, x: Tensor) -> Any:
    """Attend between moments."""
    x = self.conv(x).mT
    seen, _ = self.attention(x, x, x)
    return seen.mean(1)


def written(self: Any, x: Tensor) -> Any:
    """Write into what was computed."""
    x = self.conv(x)
    x[:, :, 0] = 0.0
    return self.last(x.mean(2))


#: What is done, and what the refusal names.
REFUSED: dict[str, tuple[nn.Module, str]] = {
    "attention": (
        conv(heads, attention=nn.MultiheadAttention(8, 2, batch_first=True)),
        r"layer attention \(MultiheadAttention\) computes multi_head_attention_forward of units",
    ),
    "a softmax over units": (
        conv(lambda s, x: s.last(s.conv(x).softmax(1).mean(2)), last=nn.Linear(8, 4)),
        r"its forward mixes units \(softmax\)",
    ),
    "a mean over units": (
        conv(lambda s, x: s.last(s.conv(x).mean(1)), last=nn.Linear(18, 4)),
        r"mixes units \(mean\)",
    ),
    "units by their place": (
        conv(lambda s, x: s.last(s.conv(x)[:, :4].mean(2)), last=nn.Linear(4, 4)),
        r"takes some units by their place \(getitem\)",
    ),
    "channels shuffled": (
        conv(
            lambda s, x: s.last(s.conv(x).view(-1, 2, 4, 18).mT.flatten(1)), last=nn.Linear(144, 4)
        ),
        r"lays units along several axes \(view\)",
    ),
    "units rolled": (
        conv(lambda s, x: s.last(s.conv(x).roll(1, 1).mean(2)), last=nn.Linear(8, 4)),
        "computes roll of units",
    ),
    "parts of other sizes": (
        conv(lambda s, x: s.last(s.conv(x).split([2, 6], 1)[1].mean(2)), last=nn.Linear(6, 4)),
        r"divides units into parts of other sizes \(split\)",
    ),
    "written into": (conv(written, last=nn.Linear(8, 4)), r"reads or writes values of units"),
    "read by Python": (
        conv(lambda s, x: s.last(torch.tensor(s.conv(x).mean(2).tolist())), last=nn.Linear(8, 4)),
        r"reads or writes values of units \(tolist\)",
    ),
    "weights that are computed": (
        conv(lambda s, x: s.last(s.other(s.conv(x)).mean(2)), last=nn.Linear(5, 4)),
        r"layer other.parametrizations.weight.0 \(_WeightNorm\) computes weight_norm of units",
    ),
    "weights of one's own that are computed": (
        conv(
            lambda s, x: s.last(F.linear(s.conv(x).mean(2), s.other.weight * 2)),
            other=nn.Linear(8, 6),
            last=nn.Linear(6, 4),
        ),
        "computes with weights that the pass makes itself",
    ),
    "projections": (
        Pass(
            lambda s, x: s.last(s.lstm(x.mT)[0][:, -1]),
            lstm=nn.LSTM(3, 8, proj_size=5, batch_first=True),
            last=nn.Linear(5, 4),
        ),
        r"layer lstm \(LSTM\) is an lstm of packed samples, or with projections",
    ),
    "weights along a third axis": (
        conv(lambda s, x: s.last((s.conv(x).mT * s.scale).mean(1)), last=nn.Linear(8, 4)),
        r"uses scale \[1, 1, 8\], .* expected one of axes 0 and 1",
    ),
}
REFUSED["weights that are computed"][0].other = weight_norm(nn.Conv1d(8, 5, 3))
REFUSED["weights along a third axis"][0].scale = nn.Parameter(torch.ones(1, 1, 8))


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_named(name: str) -> None:
    module, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words) as caught:
        unit_groups(module, WINDOW)
    assert str(caught.value).startswith("model Pass: ")
    assert "or a method that needs none (fedavg, ditto, fedrep" in str(caught.value)
