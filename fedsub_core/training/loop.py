"""Local training over a stack of clients: mini-batches, an objective, an optimiser.

Equal to PyTorch's ``SGD(momentum=...)`` with ``CrossEntropyLoss`` on each client alone; buffers
start at zero in every phase and the last partial batch is kept (FedSub's code base: batch 32,
momentum 0.9, rate 0.001 to 0.005).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict, Unpack

from fedsub_core.backend import for_passes
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Affine
from fedsub_core.models.model import Model, Params
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.training.batches import Batches, Met
from fedsub_core.training.gradients import Gradient
from fedsub_core.training.objectives import CE, Objective, Term
from fedsub_core.training.optimisers import Optimiser, optimiser_of
from fedsub_core.training.passes import Passes, each_batch
from fedsub_core.training.precision import check_precision
from fedsub_core.turn import Turn


class Trained(NamedTuple):
    """What training gives: parameters, and the mean cross-entropy met on the way, [clients]."""

    params: Params
    loss: Tensor


class Work(TypedDict, total=False):
    """Passes instead of the settings' work; no epoch or step leaves everything as it is."""

    phase: str
    epochs: int | None
    steps: int | None


def train(
    model: Model,
    params: Params,
    data: Stack,
    turn: Turn,
    settings: TrainingSettings,
    *,
    objective: Term | Objective = CE,
    only: Collection[str] | None = None,
    gradient: Gradient | None = None,
    **work: Unpack[Work],
) -> Trained:
    """Return the parameters after some epochs; `params` is left as it is.

    Parameters
    ----------
    params : stacked, ``[clients, ...]``.
    turn : round and seed, from which batches are drawn.
    only : layers that are trained; None: all. The others stay to the bit.
    gradient : instead of the objective's own, for methods that compute another.
    """
    check_precision(settings.precision, data.x.device.type)
    passes = Passes.of(settings, **work)
    clients = next(iter(params.values()))
    if not (passes.epochs if passes.steps is None else passes.steps):
        return Trained(dict(params), clients.new_full((len(clients),), float("nan")))
    again = passes.epochs > 1 and not passes.augment
    if only is not None and again and gradient is None and type(model) is Chain:
        model, data = _above_the_frozen(model, params, data, only, settings.batch_size)
    gradient = gradient or Gradient(model, objective, only)
    if (kernels := gradient.trained_by(data.x, settings).kernels) is not None:
        own, how = gradient.split(gradient.stacked()), gradient.compiled(kernels)
        changed, loss = how.descend(params, own, data, turn, settings, passes)
        return Trained(params | changed, loss)
    optimiser = optimiser_of(settings, turn.round)
    buffers = optimiser.buffers({name: params[name] for name in gradient.names})
    changed, loss = each_batch(
        {name: params[name] for name in model.tensor_shapes},
        data,
        turn,
        _Step(gradient, optimiser),
        passes,
        beside=_as_part("buffers", buffers) | _as_part("terms", gradient.stacked()),
        group=gradient.group,
        fewest=model.fewest_samples,
    )
    return Trained(params | changed, loss)


def _above_the_frozen(
    model: Chain, params: Params, data: Stack, only: Collection[str], size: int
) -> tuple[Chain, Stack]:
    """Return the model from its first trained layer on, and what that layer sees of the data.

    What lies below does not change, so many epochs need its forward pass only once. Where the
    kernels do not make it, it is made in blocks of `size` samples, all of them full: what a client
    gets does not depend on the others.
    """
    names = [layer.name if isinstance(layer, Affine) else None for layer in model.layers]
    first = next(i for i, name in enumerate(names) if name in only)
    if not any(names[:first]):
        return model, data  # nothing is computed below
    below, samples = Chain(model.layers[:first], model.input_shape), data.x.shape[1]
    with torch.no_grad():
        if for_passes(below.known, data.x).kernels is not None:
            seen = below.forward(params, data.x)
        else:
            fill = data.x.new_zeros(len(data.x), -samples % size, *data.x.shape[2:])
            blocks = torch.split(torch.cat([data.x, fill], 1), size, 1)
            made = [below.forward(params, inputs(block, data.scale)) for block in blocks]
            seen = torch.cat(made, 1)[:, :samples]
    seen = seen.view(*data.x.shape[:2], *below.output_shape)
    return Chain(model.layers[first:], tuple(seen.shape[2:])), replace(data, x=seen, scale=None)


@dataclass
class _Step:
    """One step of an optimiser; sorts the rows it gets into what they are."""

    gradient: Gradient
    optimiser: Optimiser
    rows: Params | None = None

    def __call__(self, rows: Params, batches: Batches) -> Met:
        if rows is not self.rows:  # fewer clients are active than a step ago
            self.rows = rows
            self.params = {name: rows[name] for name in self.gradient.model.tensor_shapes}
            self.buffers = _part("buffers", rows)
            self.own = self.gradient.split(_part("terms", rows))

        def into(buffers: Params, keep: float) -> Met:
            return self.gradient.into(self.params, batches, self.own, buffers, keep)

        return self.optimiser.step(self.params, self.buffers, into)


def _as_part(part: str, tensors: Params) -> Params:
    return {f"{part}:{name}": tensor for name, tensor in tensors.items()}


def _part(part: str, rows: Params) -> Params:
    prefix = f"{part}:"
    return {n.removeprefix(prefix): t for n, t in rows.items() if n.startswith(prefix)}
