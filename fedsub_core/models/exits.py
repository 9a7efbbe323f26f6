"""Models with exits: classifiers after several layers, for devices that hold only the first ones.

Source: Teerapittayanon et al., BranchyNet, ICPR 2016; as ScaleFL (Ilhan et al., CVPR 2023) and
DepthFL (Kim et al., ICLR 2023) use it. Gradients go through autograd: see
``fedsub_core.training.objectives``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.layers import Affine, Flatten, Layer, Linear, ReLU
from fedsub_core.models.model import Params
from fedsub_core.models.pooling import Pool

#: Positions that a convolution's channels are averaged to before an exit.
POSITIONS = 4


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
        own = tuple(layer for layer in self.layers if isinstance(layer, Affine))
        return tuple(layer for exit in self.exits for layer in exit.head.affine) + own

    def outputs(
        self, params: Params, x: Tensor, tape: list[Step] | None = None
    ) -> tuple[Tensor, ...]:
        """Return the logits of every exit, the last one's at the end."""
        steps: list[Step] = [] if tape is None else tape
        logits = self.forward(params, x, steps)
        seen = [exit.head.forward(params, steps[exit.after].out) for exit in self.exits]
        return (*seen, logits)


def with_exits(model: Chain, after: Sequence[str]) -> Exits:
    """Return `model` with an exit behind the ReLU of each layer named in `after`.

    An exit averages channels to 4 positions (convolutions), flattens, and has one linear layer,
    ``exit1``, ``exit2``, ... in the order of the chain.

    Raises
    ------
    ConfigError
        If a layer is none of the model's hidden ones.
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
