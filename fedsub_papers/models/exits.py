"""Models with exits: classifiers after several layers, for devices that hold only the first ones.

Source: Teerapittayanon et al., BranchyNet, ICPR 2016; as ScaleFL (Ilhan et al., CVPR 2023) and
DepthFL (Kim et al., ICLR 2023) use it. Gradients go through autograd: see
``fedsub_core.training.objectives``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step, group_of, narrowed, require_chain
from fedsub_core.models.layers import Affine, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.models.model import Model, Params
from fedsub_core.models.units import UnitGroup, Units, first_units, placements
from fedsub_core.placement import Placement
from fedsub_papers.models.pools import numbers

#: Positions that a convolution's channels are averaged to before an exit.
POSITIONS = 4
#: Why models with exits are chains.
ONE_PATH = (
    "early exits stand behind the hidden layers of a single path of Linear, Conv, ReLU, pooling "
    "and Flatten, and where the pass of another module could end early is not known"
)


@dataclass(frozen=True)
class Exit:
    """A classifier that reads the output of the chain's layer at place `after`."""

    after: int
    head: Chain


@dataclass(frozen=True)
class Exits(Chain):
    """A chain with further classifiers; the chain's own end is the last exit."""

    exits: tuple[Exit, ...] = ()

    @cached_property
    def affine(self) -> tuple[Affine, ...]:
        """The layers that have units: the exits', then the chain's own."""
        return tuple(layer for exit in self.exits for layer in exit.head.affine) + self._trunk

    @cached_property
    def _trunk(self) -> tuple[Affine, ...]:
        return tuple(layer for layer in self.layers if isinstance(layer, Affine))

    @cached_property
    def unit_groups(self) -> tuple[UnitGroup, ...]:
        """The units of each hidden layer, which exits read, too."""
        readers: dict[str, list[Affine]] = {layer.name: [] for layer in self._trunk}
        for exit in self.exits:
            before = [one for one in self.layers[: exit.after] if isinstance(one, Affine)]
            readers[before[-1].name].append(exit.head.affine[0])
        return tuple(
            group_of(layer, [after, *readers[layer.name]]) for layer, after in pairwise(self._trunk)
        )

    def narrow(self, units: Units) -> tuple[Exits, Mapping[str, Placement]]:
        """Return the chain with these units alone, its exits, and where its numbers stand."""
        places = placements(self.unit_groups, self.parameter_shapes, units)
        layers = narrowed(self.layers, places)
        exits = tuple(
            Exit(
                exit.after,
                Chain(
                    narrowed(exit.head.layers, places),
                    Chain(layers[: exit.after + 1], self.input_shape).output_shape,
                ),
            )
            for exit in self.exits
        )
        return replace(self, layers=layers, exits=exits), places

    @property
    def path(self) -> Chain:
        """The chain alone, from the samples to its own end."""
        return Chain(self.layers, self.input_shape)

    @property
    def branches(self) -> tuple[tuple[int, Chain], ...]:
        """The early exits: after how many layers, and the classifier."""
        return tuple((exit.after + 1, exit.head) for exit in self.exits)

    def up_to(self, last: int) -> Chain:
        """Return the layers up to the `last`-th exit, which is then the chain's end.

        A chain where one exit is left.
        """
        if last > len(self.exits):
            return self
        *before, end = self.exits[:last]
        layers = (*self.layers[: end.after + 1], *end.head.layers)
        if not before:
            return Chain(layers, self.input_shape)
        return Exits(layers, self.input_shape, tuple(before))

    def outputs(
        self, params: Params, x: Tensor, tape: list[Step] | None = None
    ) -> tuple[Tensor, ...]:
        """Return the logits of every exit, the last one's at the end."""
        steps: list[Step] = [] if tape is None else tape
        logits = self.forward(params, x, steps)
        seen = [exit.head.forward(params, steps[exit.after].out) for exit in self.exits]
        return (*seen, logits)


def exits_of(model: Chain) -> int:
    """Return how many exits a chain has, its end included."""
    return 1 + len(model.exits) if isinstance(model, Exits) else 1


def with_all_exits(model: Model) -> Chain:
    """Return a chain with an exit behind each hidden layer but the last, whose exit is its end.

    The chain itself where it has one hidden layer or none.

    Raises ConfigError if it is no chain.
    """
    chain = require_chain(model, ONE_PATH)
    hidden = [layer.name for layer in chain.affine[:-1]]
    return with_exits(chain, hidden[:-1]) if hidden[:-1] else chain


def shortened(model: Model, hyper: Any, capacity: float) -> Chain:
    """Return the chain to the deepest exit that a device can hold, as DepthFL gives it.

    That is ``capacity**2`` of all numbers; to the first exit, where even that is more.
    """
    whole = with_all_exits(model)
    if capacity == 1 or not isinstance(whole, Exits):
        return whole
    parts = [whole.up_to(last) for last in range(1, exits_of(whole) + 1)]
    fits = [part for part in parts if numbers(part) <= capacity**2 * numbers(whole) + 1e-6]
    return fits[-1] if fits else parts[0]


def scaled(model: Model, hyper: Any, capacity: float) -> Chain:
    """Return the chain to the exit of a device's level, as narrow as it must be: as in ScaleFL.

    Of so many levels of capacity as hyperparameters name, the l-th goes to the l-th exit. It has of
    each layer the largest multiple of 1/32 of the units with ``capacity**2`` of all numbers at
    most.
    """
    whole = with_all_exits(model)
    if capacity == 1:
        return whole
    level = max(1, sum(one <= capacity + 1e-9 for one in hyper.shares()))
    deep = whole.up_to(level) if isinstance(whole, Exits) else whole
    for width in range(32, 0, -1):
        part = deep.narrow(first_units(deep, width / 32))[0]
        if numbers(part) <= capacity**2 * numbers(whole) + 1e-6:
            break
    return part


def with_exits(model: Chain, after: Sequence[str]) -> Exits:
    """Return `model` with an exit behind the ReLU of each layer named in `after`.

    An exit averages channels to 4 positions (convolutions), flattens, and has one linear layer,
    ``exit1``, ``exit2``, ... in the order of the chain.

    Raises ConfigError if a layer is none of the model's hidden ones.
    """
    hidden = [layer.name for layer in model.affine[:-1]]
    if unknown := [name for name in after if name not in hidden]:
        raise ConfigError(f"exits after {', '.join(unknown)}: expected some of {', '.join(hidden)}")
    exits: list[Exit] = []
    shape, name = model.input_shape, ""
    for place, layer in enumerate(model.layers):
        shape = layer.output_shape(shape)
        name = layer.name if isinstance(layer, Affine) else name
        if isinstance(layer, ReLU) and name in after:
            chain: list[Layer | Affine] = []
            features = shape
            if len(shape) > 1:
                size = (POSITIONS,) * (len(shape) - 1)
                chain += [Pool("adaptive-avg", size), Flatten()]
                features = (shape[0] * POSITIONS ** (len(shape) - 1),)
            chain.append(Linear(f"exit{len(exits) + 1}", model.classes, prod(features)))
            exits.append(Exit(place, Chain(tuple(chain), shape)))
    return Exits(model.layers, model.input_shape, tuple(exits))
