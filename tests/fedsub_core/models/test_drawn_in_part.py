"""Weak devices draw their part of a module: bits of the whole one's, in a part of its memory."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fedsub.testing.runs import assert_equal
from fedsub_core.models.drawing import Builder
from fedsub_core.models.narrowing import Narrowed
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import first_units

from .coupling.passes import CLASSES, PASSES, WINDOW
from .modules import MODULES
from .parts import taken


class Initialised(nn.Module):
    """Layers whose numbers are set by the usual functions, and a constant drawn between them."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(shape[0] * shape[1], 12)
        self.register_buffer("fixed", torch.randn(3))
        self.second = nn.Linear(12, 8)
        self.last = nn.Linear(8, classes)
        nn.init.kaiming_normal_(self.first.weight)
        nn.init.xavier_uniform_(self.second.weight)
        nn.init.constant_(self.second.bias, 0.1)
        self.second.weight.data.mul_(2).add_(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        hidden = torch.relu(self.first(x.flatten(1)))
        logits: Tensor = self.last(torch.relu(self.second(hidden)) + self.get_buffer("fixed").sum())
        return logits


def following(set_numbers: Callable[[Tensor], object]) -> Builder:
    """Return a builder of a module whose numbers follow from others: it is built whole."""

    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        module = Initialised(shape, classes)
        set_numbers(module.get_parameter("first.weight"))
        return module

    return build


BUILDERS: dict[str, Builder] = {
    "initialised": Initialised,
    "orthogonal": following(nn.init.orthogonal_),
    "truncated": following(nn.init.trunc_normal_),
    "sparse": following(lambda weight: nn.init.sparse_(weight, 0.5)),
    "a row": following(lambda weight: weight.data[0].fill_(1.0)),
    "another's": following(lambda weight: weight.data.copy_(torch.rand_like(weight))),
    **MODULES,
    **{name: lambda *_, build=build: build() for name, (build, shape, _) in PASSES.items()},
}
SHAPES = {name: shape for name, (_, shape, _) in PASSES.items()}


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_a_part_has_the_bits_that_the_whole_has_there(name: str) -> None:
    build, shape = BUILDERS[name], SHAPES.get(name, WINDOW)
    whole = TorchModel.of(build, shape, CLASSES, seed=3)
    device = TorchModel.of(build, shape, CLASSES, seed=3, narrow=True)
    units = first_units(whole, 0.5)
    expected, places = whole.narrow(units)
    small, same = device.narrow(units)
    assert same == places and small.tensor_shapes == expected.tensor_shapes
    first = whole.init(1, 7)
    assert_equal(small.init(1, 7), taken(first, places))
    assert_equal(small.constants, expected.constants)
    assert small.trace == expected.trace
    again, _ = small.narrow(first_units(small, 0.5))
    assert_equal(again.init(1, 7), expected.narrow(first_units(expected, 0.5))[0].init(1, 7))


@pytest.mark.parametrize("name", ["initialised", "orthogonal", "truncated", "sparse", "a row"])
def test_what_follows_from_other_numbers_is_built_whole(name: str) -> None:
    made = TorchModel.of(BUILDERS[name], WINDOW, CLASSES, narrow=True)
    assert (made.hollow is None) == (name != "initialised")


def test_the_stream_is_left_where_the_whole_leaves_it() -> None:
    whole = TorchModel.of(Initialised, WINDOW, CLASSES)
    small = whole.narrow(first_units(whole, 0.5))[0]
    assert isinstance(small.build, Narrowed)
    after = []
    for build in (Initialised, small.build):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            build(WINDOW, CLASSES)
            after.append(torch.rand(3))
    assert torch.equal(*after)


#: Prints MiB that a device of a capacity needs for a model of 8.2 million numbers and its first.
MEASURED = """
import sys
import torch
from torch import nn
from fedsub.engines.peak_memory import forget_peak, peak_bytes
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import first_units

def build(shape, classes):
    own = [nn.Flatten(), nn.Linear(shape[0], 2000)]
    for _ in range(2):
        own += [nn.Tanh(), nn.Linear(2000, 2000)]
    return nn.Sequential(*own, nn.Tanh(), nn.Linear(2000, classes))

share = float(sys.argv[1])
small = TorchModel.of(lambda *_: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)), (8,), 4)
small.narrow(first_units(small, 0.5))[0].init(1, 0)
forget_peak()
before = peak_bytes()
model = TorchModel.of(build, (8,), 4, narrow=share < 1)
if share < 1:
    model = model.narrow(first_units(model, share))[0]
first = model.init(1, 0)
print((peak_bytes() - before) / 2**20)
"""


def test_a_quarter_takes_a_part_of_the_memory_of_the_whole() -> None:
    def peak(share: float) -> float:
        command = [sys.executable, "-c", MEASURED, str(share)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return float(done.stdout)

    # The allocator keeps a freed tensor now and then: the least of three tells what is needed.
    assert min(peak(0.25) for _ in range(3)) < 0.35 * peak(1.0)
