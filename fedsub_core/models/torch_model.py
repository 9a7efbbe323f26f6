"""Any ``torch.nn.Module`` as a model: its parameters by PyTorch's names, one client after another.

A module's numbers are of three kinds. Parameters that require gradients are trained and exchanged.
Running statistics of norms follow from the samples and go where ``norm`` says. All else, frozen
parameters and other buffers, is the module's own: the same for everybody, neither trained nor sent.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from torch import Tensor, nn

from fedsub_core.data.stacks import Stack
from fedsub_core.models.architecture import LayerWithUnits, Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.coupling.groups import unit_groups
from fedsub_core.models.drawing import Builder, drawn
from fedsub_core.models.layers import Linear
from fedsub_core.models.model import Model, Params, Pass
from fedsub_core.models.module_layers import module_layers
from fedsub_core.models.module_passes import Passes, own_shapes, tensors_of
from fedsub_core.models.narrowing import Narrowed, hollow, with_units, without_layer
from fedsub_core.models.norms import (
    AVERAGED,
    STATIC,
    batch_norms,
    check_norms,
    kept_at_home,
    statistics,
)
from fedsub_core.models.traced import Trace
from fedsub_core.models.units import UnitGroup, Units, narrowed_groups, placements
from fedsub_core.placement import Placement
from fedsub_core.seeds import derive_seed

#: Smaller models that are kept, at most: methods may want others in each round.
KEPT = 32


@dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A module and what is known of it.

    Parameters
    ----------
    build : makes the module anew, to draw a first model from a run's seed.
    module : numbers that are nobody's own are read from it; it is never changed.
    trace : what was seen of a pass through it.
    norm : ``averaged``, ``local`` or ``static``: :mod:`fedsub_core.models.norms`.
    hollow : the seed of PyTorch's stream that the module's numbers must be drawn with, where the
        module has the shapes alone; None: it has its numbers.
    """

    build: Builder
    module: nn.Module
    trace: Trace
    input_shape: Shape
    norm: str = AVERAGED
    hollow: int | None = None
    #: Passes through the module; those that differ in `build` alone share them.
    passes: Passes = field(default=None, repr=False)  # type: ignore[assignment]
    _narrow: dict[Any, TorchModel] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.passes is None:
            passes = Passes(self.module, self.trace, self.input_shape)
            object.__setattr__(self, "passes", passes)

    @classmethod
    def of(
        cls,
        build: Builder,
        shape: Shape,
        classes: int,
        norm: str = AVERAGED,
        seed: int = 0,
        narrow: bool = False,
    ) -> TorchModel:
        """Return the model that `build` makes, hollow if only `narrow` ones of it are wanted."""
        at = derive_seed(seed, "", 0, "model")
        made = hollow(build, shape, classes, at) if narrow else None
        module, trace = made or drawn(build, shape, classes, at)
        check_norms(module, norm)
        return cls(build, module, trace, shape, norm, at if made else None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the copies of the threads of this process, and smaller models."""
        own = self.build, self.module, self.trace, self.input_shape, self.norm, self.hollow
        return type(self), own

    @cached_property
    def _all(self) -> dict[str, Shape]:
        return own_shapes(self.module)

    @cached_property
    def _at_home(self) -> frozenset[str]:
        """Names of what each client keeps for itself."""
        return kept_at_home(self.module, self.norm, self._all)

    @cached_property
    def constants(self) -> Params:
        """Frozen parameters and buffers that are the same for everybody, without a client axis."""
        own = tensors_of(self.module)
        return {n: t.detach() for n, t in own.items() if n not in self._all}

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shape of every tensor that methods exchange."""
        return {n: shape for n, shape in self._all.items() if n not in self._at_home}

    @cached_property
    def home_shapes(self) -> dict[str, Shape]:
        """Shape of what each client keeps for itself."""
        return {n: shape for n, shape in self._all.items() if n in self._at_home}

    @cached_property
    def trained(self) -> tuple[str, ...]:
        """Names of the tensors that gradients move."""
        moved = statistics(self.module)
        return tuple(name for name in self.tensor_shapes if name not in moved)

    @cached_property
    def affine(self) -> tuple[LayerWithUnits, ...]:
        """The layers that have units; raises as :func:`.module_layers.module_layers`."""
        last = self.trace.require_last().name
        return module_layers(self.module, self.input_shape, self.parameter_shapes, last)

    @cached_property
    def unit_groups(self) -> tuple[UnitGroup, ...]:
        """Units as a pass through the module shows them: :mod:`fedsub_core.models.coupling`."""
        if isinstance(self.build, Narrowed):
            return self.build.groups
        return unit_groups(self.module, self.input_shape)

    def narrow(self, units: Units) -> tuple[TorchModel, Mapping[str, Placement]]:
        """Return the module with these units alone, and where its tensors stand in this one's.

        Its first model has the numbers of this one's. Its constants are of these units, too.
        """
        every = {**self._all, **{name: tuple(t.shape) for name, t in self.constants.items()}}
        places = placements(self.unit_groups, every, units)
        # Modules of a size differ in their constants alone, and are traced once.
        shapes = tuple(at.shape(every[name]) for name, at in places.items())
        key = shapes, tuple(places[name] for name in self.constants)
        if key not in self._narrow:
            module, trace = with_units(self, places)
            made = type(self)(self.build, module, trace, self.input_shape, self.norm)
            for oldest in list(self._narrow)[: 1 - KEPT]:
                del self._narrow[oldest]
            self._narrow[key] = made
        groups = narrowed_groups(self.unit_groups, units, places)
        small = replace(self._narrow[key], build=Narrowed(self.build, places, groups))
        return small, {name: places[name] for name in self.tensor_shapes}

    @property
    def layer_names(self) -> tuple[str, ...]:
        """Names of the trained layers in the order in which they computed; norms are none."""
        return self.trace.layers

    @property
    def classes(self) -> int:
        """Logits of a sample."""
        return self.trace.output_shape[0]

    @property
    def embedding_size(self) -> int:
        """Length of the input of the last Linear layer; a ConfigError where there is none."""
        return prod(self.trace.require_last().input_shape)

    @property
    def output_shape(self) -> Shape:
        """Shape of what the model makes of one sample."""
        return self.trace.output_shape

    @property
    def widest(self) -> int:
        """Values of a sample at its widest."""
        return self.trace.widest

    @cached_property
    def fewest_samples(self) -> int:  # type: ignore[override]
        """Samples that a step of training needs at least."""
        return 2 if batch_norms(self.module) else 1

    def init(self, clients: int, seed: int) -> Params:
        """Draw one model as its builder does and give every client a copy of it."""
        at = derive_seed(seed, "", 0, "model")
        module, _ = drawn(self.build, self.input_shape, self.classes, at)
        own = tensors_of(module)
        return {
            name: own[name].detach().expand(clients, *shape).clone()
            for name, shape in self.tensor_shapes.items()
        }

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]`` of ``x [clients, samples, *features]``."""
        return self.passes.forward(params, x)

    def training_pass(
        self,
        params: Params,
        x: Tensor,
        only: Collection[str] | None = None,
        seeds: Sequence[int] = (),
    ) -> Pass:
        """Return a pass in training mode; statistics of norms in `params` move in place."""
        return self.passes.training(params, x, only, seeds)

    def together(self, x: Tensor, training: bool) -> int:
        """Return how many clients, of equally many real samples, pass at once at most."""
        return self.passes.together(x, training)

    def settled(self, params: Params, data: Stack) -> Params:
        """Return, with static norms, statistics of the person's own training part."""
        static = self.norm == STATIC
        return self.passes.settled(params, data, self.fewest_samples) if static else {}

    def cut(self, head_layers: int = 1) -> tuple[Model, Model]:
        """Return the module without its last Linear layer, and that layer.

        Raises ConfigError if the module does not end in that layer, or more layers are asked for.
        """
        self.trace.require_end(head_layers)
        return self._cut

    @cached_property
    def _cut(self) -> tuple[Model, Model]:
        last = self.trace.require_last()
        body, size = without_layer(self.module, last.name), prod(last.input_shape)
        trace = replace(self.trace, layers=self.trace.layers[:-1], last=None, output_shape=(size,))
        head = Chain((Linear(last.name, self.classes, size),), (size,))
        return TorchModel(self.build, body, trace, self.input_shape, self.norm), head

    def as_module(self, params: Mapping[str, Tensor]) -> nn.Module:
        """Return a module of its own with one client's numbers, in evaluation mode."""
        module = copy.deepcopy(self.module).eval().requires_grad_(False)
        own = tensors_of(module)
        for name in self.tensor_shapes:
            own[name].copy_(params[name])
        return module
