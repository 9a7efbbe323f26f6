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

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from fedsub_core.data.graphs import real_rows
from fedsub_core.data.samples import Nodes
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import LayerWithUnits, Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.coupling.groups import unit_groups
from fedsub_core.models.drawing import Builder, drawing, drawn
from fedsub_core.models.layers import Linear
from fedsub_core.models.model import Model, Params, Pass
from fedsub_core.models.module_copies import Copies
from fedsub_core.models.module_layers import module_layers
from fedsub_core.models.narrowing import Narrowed, narrowed, retraced
from fedsub_core.models.norms import AVERAGED, STATIC, batch_norms, check_norms, statistics
from fedsub_core.models.together import (
    Call,
    against,
    all_together,
    each,
    each_alone,
    most_together,
    say,
)
from fedsub_core.models.traced import Trace, zeros
from fedsub_core.models.units import UnitGroup, Units, narrowed_groups, placements
from fedsub_core.placement import Placement
from fedsub_core.seeds import derive_seed

#: Samples whose statistics a norm takes at a test, at most.
SETTLED = 2048
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
    """

    build: Builder
    module: nn.Module
    trace: Trace
    input_shape: Shape
    norm: str = AVERAGED
    _copies: Copies = field(default=None, repr=False)  # type: ignore[assignment]
    _narrow: dict[Any, TorchModel] = field(default_factory=dict, repr=False)
    _together: dict[tuple[str, bool], str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self._copies is None:
            watched = "" if self.trace.last is None else self.trace.last.name
            object.__setattr__(self, "_copies", Copies(self.module, watched))

    @classmethod
    def of(
        cls, build: Builder, input_shape: Shape, classes: int, norm: str = AVERAGED, seed: int = 0
    ) -> TorchModel:
        """Return the model that `build` makes; raises as `drawn` in `drawing.py`."""
        module, trace = drawn(build, input_shape, classes, derive_seed(seed, "", 0, "model"))
        check_norms(module, norm)
        return cls(build, module, trace, input_shape, norm)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the copies of the threads of this process, and smaller models."""
        return type(self), (self.build, self.module, self.trace, self.input_shape, self.norm)

    @cached_property
    def _statistics(self) -> tuple[str, ...]:
        return statistics(self.module)

    @cached_property
    def _at_home(self) -> frozenset[str]:
        """Names of what each client keeps for itself."""
        if self.norm == AVERAGED:
            return frozenset()
        if self.norm == STATIC:
            return frozenset(self._statistics)
        layers = batch_norms(self.module)
        return frozenset(n for n in self._all if n.rpartition(".")[0] in layers)

    @cached_property
    def _all(self) -> dict[str, Shape]:
        trained = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        buffers = dict(self.module.named_buffers())
        found = {**trained, **{n: buffers[n] for n in self._statistics}}
        # In the order of the layers, so that a layer's tensors stand together.
        layers = dict.fromkeys(name.rpartition(".")[0] for name in found)
        of = {layer: [n for n in found if n.rpartition(".")[0] == layer] for layer in layers}
        return {n: tuple(found[n].shape) for layer in layers for n in of[layer]}

    @cached_property
    def constants(self) -> Params:
        """Frozen parameters and buffers that are the same for everybody, without a client axis."""
        own = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
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
        return tuple(name for name in self.tensor_shapes if name not in self._statistics)

    @cached_property
    def affine(self) -> tuple[LayerWithUnits, ...]:
        """The layers that have units: :mod:`fedsub_core.models.module_layers`.

        Raises
        ------
        ConfigError
            If the last one is no Linear layer with weights of its own, or samples are not on the
            first axis everywhere.
        """
        last = self.trace.require_last()
        layers = module_layers(self.module, self.input_shape, self.parameter_shapes)
        if not layers or layers[-1].name != last.name:
            raise ConfigError(
                f"model {self.trace.name}, layer {last.name}: got weights that are computed, "
                "expected a parameter: a unit owns its row of it"
            )
        return layers

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
            module = narrowed(self.module, places)
            with drawing(0):  # Dropout in a pass of the trace draws
                trace = retraced(module, self.input_shape, self.classes)
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
        """Length of the input of the last Linear layer.

        Raises
        ------
        ConfigError
            If there is none.
        """
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
        return self._numbers(module, clients)

    def _numbers(self, module: nn.Module, clients: int) -> Params:
        """Return a module's numbers once for each client."""
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return {
            name: own[name].detach().expand(clients, *shape).clone()
            for name, shape in self.tensor_shapes.items()
        }

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]`` of ``x [clients, samples, *features]``."""
        call = self._passing(self._copies.at(x.device, training=False))
        most, made = self.together(x, training=False), []
        for begin in range(0, len(x), most):
            part = slice(begin, begin + most)
            own = {name: tensor[part] for name, tensor in params.items()}
            how = all_together if most > 1 else each_alone
            made.append(how(call, own, x[part])[0])
        return torch.cat(made)

    def together(self, x: Tensor, training: bool) -> int:
        """Return how many clients, of equally many real samples, pass at once at most."""
        if x.device.type == "cpu":
            return 1
        why_not = self.apart(x.device, training)
        say(f"{self.trace.name} in {'training' if training else 'tests'}", why_not)
        # Besides what layers make, norms and activations keep theirs.
        values = self.trace.widest * (1 + len(self.layer_names))
        return 1 if why_not else most_together(x, values)

    def apart(self, device: torch.device, training: bool) -> str:
        """Return why clients cannot pass together on a device; "" where they can."""
        key = device.type, training
        if key not in self._together:
            self._together[key] = self._apart(device, training)
        return self._together[key]

    def _apart(self, device: torch.device, training: bool) -> str:
        if isinstance(self.input_shape, Nodes):
            return "graphs have nodes of their own number"
        if training and self.trace.draws:
            return "each client's pass draws from a stream of its own"
        params = {n: t.to(device) for n, t in self._numbers(self.module, 2).items()}
        for tensor in params.values():
            tensor[1] = (tensor[1] * 0.5).to(tensor.dtype)  # no two clients are the same
        x = zeros(self.input_shape, 4)
        x = x.view(2, 2, *x.shape[1:])
        if x.is_floating_point():
            x = torch.linspace(-1, 1, x.numel()).view_as(x)
        call = self._passing(self._copies.at(device, training=training))
        return against(call, params, x.to(device))

    def followed(self, own: Params, x: Tensor, by: TorchFunctionMode) -> Tensor:
        """Return logits ``[samples, classes]`` of one client's ``x [samples, *features]``.

        `by` sees each function that the module calls, with the very tensors of `own`.
        """
        module = self._copies.at(x.device, training=False)
        with by:
            return self._call(module, own, x)

    def training_pass(
        self,
        params: Params,
        x: Tensor,
        only: Collection[str] | None = None,
        seeds: Sequence[int] = (),
    ) -> Pass:
        """Return a pass in training mode; statistics of norms in `params` move in place."""
        call = self._passing(self._copies.at(x.device, training=True, only=only))
        if len(x) > 1 and self.together(x, training=True) > 1:
            logits, seen = all_together(call, params, x)
        elif self.trace.draws:
            made = []
            for i, own in enumerate(each(params)):
                with drawing(seeds[i] if seeds else 0, x.device):
                    made.append(call(own, x[i]))
            logits, seen = map(torch.stack, zip(*made, strict=True))
        else:
            logits, seen = each_alone(call, params, x)
        return Pass((logits,), seen)

    def _passing(self, module: nn.Module) -> Call:
        """Return a client's pass through `module`: logits, and what the last Linear layer saw."""

        def call(own: Params, x: Tensor) -> tuple[Tensor, Tensor]:
            logits = self._call(module, own, x)
            seen = self._copies.seen
            return logits, x if seen is None else seen

        return call

    def cut(self, head_layers: int = 1) -> tuple[Model, Model]:
        """Return the module without its last Linear layer, and that layer.

        Raises
        ------
        ConfigError
            If the module does not end in that layer, or more layers are asked for.
        """
        if head_layers == 1:
            return self._cut
        return self._cut_before(head_layers)

    @cached_property
    def _cut(self) -> tuple[Model, Model]:
        return self._cut_before(1)

    def _cut_before(self, head_layers: int) -> tuple[Model, Model]:
        last = self.trace.require_last()
        if head_layers != 1 or not last.ends:
            raise ConfigError(
                f"model {type(self.module).__name__}: got a head of {head_layers} layers, expected "
                "one Linear layer at the very end of the module: a torch module is cut there alone"
            )
        body = copy.deepcopy(self.module)
        parent, _, own = last.name.rpartition(".")
        setattr(body.get_submodule(parent), own, nn.Identity())
        size = prod(last.input_shape)
        trace = replace(self.trace, layers=self.trace.layers[:-1], last=None, output_shape=(size,))
        head = Chain((Linear(last.name, self.classes, size),), (size,))
        return TorchModel(self.build, body, trace, self.input_shape, self.norm), head

    def settled(self, params: Params, data: Stack) -> Params:
        """Return, with static norms, statistics of the person's own training part."""
        if self.norm != STATIC:
            return {}
        found = {name: params[name].clone() for name in self._statistics}
        module = self._copies.at(data.x.device, training=False)
        norms: list[Any] = [module.get_submodule(name) for name in batch_norms(self.module)]
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.training, norm.momentum = True, 1.0  # what is kept is the last pass's alone
        with torch.no_grad():
            for i, own in enumerate(each(params | found)):
                some = range(0, data.counts[i], -(-data.counts[i] // SETTLED))
                if data.context:
                    some = range(data.counts[i] + data.context[i])
                if len(some) >= self.fewest_samples:
                    one = slice(i, i + 1)
                    scale = None if data.scale is None else data.scale[one]
                    self._call(module, own, inputs(data.x[one, list(some)], scale)[0])
        for norm, momentum in zip(norms, before, strict=True):
            norm.training, norm.momentum = False, momentum
        return found

    def _call(self, module: nn.Module, own: Params, x: Tensor) -> Tensor:
        """Return what the module makes of one client's samples with the client's own numbers.

        A graph is passed without its padding, so that no digit depends on others of the stack.
        """
        rows = real_rows(x) if isinstance(self.input_shape, Nodes) else len(x)
        logits: Tensor = functional_call(module, own, (x[:rows],), tie_weights=self._tied)
        if rows == len(x):
            return logits
        return torch.cat([logits, logits.new_zeros(len(x) - rows, *logits.shape[1:])])

    @cached_property
    def _tied(self) -> bool:
        """Whether some parameter has two names; to look for them takes time in every pass."""
        every = self.module.named_parameters(remove_duplicate=False)
        return len(list(every)) > len(list(self.module.parameters()))

    def as_module(self, params: Mapping[str, Tensor]) -> nn.Module:
        """Return a module of its own with one client's numbers, in evaluation mode."""
        module = copy.deepcopy(self.module).eval().requires_grad_(False)
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name in self.tensor_shapes:
            own[name].copy_(params[name])
        return module
