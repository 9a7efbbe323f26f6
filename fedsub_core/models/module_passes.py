"""Passes of clients through a module, each with numbers of its own, alone or together."""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from fedsub_core.data.graphs import real_rows
from fedsub_core.data.samples import Nodes
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.models.architecture import Shape
from fedsub_core.models.drawing import drawing
from fedsub_core.models.model import Params, Pass
from fedsub_core.models.norms import batch_norms, statistics
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

#: Samples whose statistics a norm takes at a test, at most.
SETTLED = 2048


class Passes:
    """Passes through one module, which is never changed.

    Parameters
    ----------
    trace : what was seen of a pass through it.
    """

    def __init__(self, module: nn.Module, trace: Trace, input_shape: Shape) -> None:
        self._module, self._trace, self._input_shape = module, trace, input_shape
        self._copies = Copies(module, "" if trace.last is None else trace.last.name)
        every = module.named_parameters(remove_duplicate=False)
        #: Whether some parameter has two names; to look for them takes time in every pass.
        self._tied = len(list(every)) > len(list(module.parameters()))
        self._apart: dict[tuple[str, bool], str] = {}

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
        if x.device.type != "cuda":
            return 1
        why_not = self.apart(x.device, training)
        say(f"{self._trace.name} in {'training' if training else 'tests'}", why_not)
        # Besides what layers make, norms and activations keep theirs.
        values = self._trace.widest * (1 + len(self._trace.layers))
        return 1 if why_not else most_together(x, values)

    def apart(self, device: torch.device, training: bool) -> str:
        """Return why clients cannot pass together on a device; "" where they can.

        It is found once for a device and a mode, by a trial
        (:func:`fedsub_core.models.together.against`).
        """
        key = device.type, training
        if key not in self._apart:
            self._apart[key] = self._tried(device, training)
        return self._apart[key]

    def _tried(self, device: torch.device, training: bool) -> str:
        if isinstance(self._input_shape, Nodes):
            return "graphs have nodes of their own number"
        if training and self._trace.draws:
            return "each client's pass draws from a stream of its own"
        params = {
            name: torch.stack([tensor, tensor * 0.5]).to(device)  # no two clients are the same
            for name, tensor in own_numbers(self._module).items()
        }
        x = zeros(self._input_shape, 4)
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

    def training(
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
        elif self._trace.draws:
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

    def settled(self, params: Params, data: Stack, fewest: int) -> Params:
        """Return statistics of norms, of each client's own training part in `data`.

        Parameters
        ----------
        fewest : samples that there must be; else a client's stay as they are in `params`.
        """
        found = {name: params[name].clone() for name in statistics(self._module)}
        module = self._copies.at(data.x.device, training=False)
        norms: list[Any] = [module.get_submodule(name) for name in batch_norms(self._module)]
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.training, norm.momentum = True, 1.0  # what is kept is the last pass's alone
        with torch.no_grad():
            for i, own in enumerate(each(params | found)):
                some = range(0, data.counts[i], -(-data.counts[i] // SETTLED))
                if data.context:
                    some = range(data.counts[i] + data.context[i])
                if len(some) >= fewest:
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
        rows = real_rows(x) if isinstance(self._input_shape, Nodes) else len(x)
        logits: Tensor = functional_call(module, own, (x[:rows],), tie_weights=self._tied)
        if rows == len(x):
            return logits
        return torch.cat([logits, logits.new_zeros(len(x) - rows, *logits.shape[1:])])


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's own parameters and buffers, by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def own_numbers(module: nn.Module) -> Params:
    """Return a module's trained parameters and the running statistics of its norms, by name."""
    trained = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}
    buffers = dict(module.named_buffers())
    return trained | {name: buffers[name] for name in statistics(module)}


def own_shapes(module: nn.Module) -> dict[str, Shape]:
    """Return the shapes of :func:`own_numbers`, those of a layer together, in their order."""
    found = own_numbers(module)
    layers = dict.fromkeys(name.rpartition(".")[0] for name in found)
    of = {layer: [n for n in found if n.rpartition(".")[0] == layer] for layer in layers}
    return {n: tuple(found[n].shape) for layer in layers for n in of[layer]}


class Copies(threading.local):
    """Each thread's copy, made when the thread first asks.

    Parameters
    ----------
    module : what is copied; it is never changed.
    watched : the layer whose input is kept; "" for none.
    """

    #: What the watched layer saw in this thread's last pass.
    seen: Tensor | None = None
    _copy: nn.Module | None = None
    _mode: object = None

    def __init__(self, module: nn.Module, watched: str = "") -> None:
        self._of, self._watched = module, watched

    def at(
        self, device: torch.device, training: bool, only: Collection[str] | None = None
    ) -> nn.Module:
        """Return this thread's copy on a device, in a mode.

        Parameters
        ----------
        only : layers that are trained; None: all. Norms of others use the statistics they have.
        """
        if self._copy is None:
            self._copy = copy.deepcopy(self._of)
            if self._watched:
                self._copy.get_submodule(self._watched).register_forward_pre_hook(self._keep)
        mode = device, training, None if only is None else frozenset(only)
        if self._mode != mode:
            self._copy.to(device).train(training)
            if training and only is not None:
                for name in batch_norms(self._of):
                    self._copy.get_submodule(name).train(name in only)
            self._mode = mode
        return self._copy

    def _keep(self, layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        self.seen = args[0]
