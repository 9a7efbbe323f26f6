"""Training by the compiled kernels: SGD on what an objective's written-out terms give.

They know the models of :func:`fedsub_core.kernels.known.known`, and each of cross-entropy, a pull,
a mask and a pull to prototypes once. Everything else is PyTorch's, which is their oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.kernels import library
from fedsub_core.kernels.chains import Call, Elsewhere, check
from fedsub_core.kernels.known import Known, ends_in_classes
from fedsub_core.kernels.library import Kernels, Steps, kernels
from fedsub_core.models.chain import Chain
from fedsub_core.models.model import Params
from fedsub_core.training.batches import Batch, order_of_epoch, stream_of
from fedsub_core.training.objectives import Masked, PrototypePull, Pull, Term
from fedsub_core.turn import Turn

if TYPE_CHECKING:
    from fedsub_core.training.gradients import Gradient, Own

#: Terms that the kernels know beside cross-entropy.
KNOWN = Pull, Masked, PrototypePull


def known_to_kernels(model: Chain, terms: Sequence[Term]) -> tuple[Known, ...]:
    """Return the model's layers if the kernels know it, and each of the `terms` once; else ()."""
    once = all(sum(isinstance(term, kind) for term in terms) < 2 for kind in KNOWN)
    return model.known if type(model) is Chain and once and ends_in_classes(model.known) else ()


@dataclass
class _Prepared:
    """A call that is ready but for its samples."""

    kernels: Kernels
    model: Sequence[Known]
    call: Call
    chain: library.Chain
    steps: Steps

    def run(self, x: Tensor, counts: Sequence[int], *others: Tensor | None) -> None:
        """Descend on the samples; `others`: classes, order, weights."""
        samples = self.call.samples(self.model, x, counts, *others)
        check(self.kernels.descend(self.chain, samples, self.steps))


def _prepared(
    gradient: Gradient, params: Params, own: Own, into: Params, update: bool
) -> _Prepared | None:
    """Return a call that changes `into`, and with `update` `params`, too; None: not for kernels."""
    found, call = kernels(), Call()
    if not (found and gradient.known):
        return None
    beside: dict[str, Params] = {}
    steps = Steps(update=update)
    trained = {name.rpartition(".")[0] for name in gradient.names}
    clients = len(next(iter(into.values()), ()))
    try:
        for term, tensors in zip(gradient.terms, own, strict=True):
            if isinstance(term, Masked):
                beside["mask"] = _floats(tensors, "")
            elif isinstance(term, Pull):
                steps.pull = term.weight
                beside |= {kind: _floats(tensors, f"{kind}/") for kind in ("anchor", "where")}
            elif isinstance(term, PrototypePull):
                steps.toward = term.weight
                held = tensors["held"].to(torch.float32)
                last = gradient.known[-1]
                call.demand(tensors["prototypes"], clients, last.units * last.channels)
                call.demand(held, clients, last.units)
                steps.prototypes, steps.prototypes_step = call.place(tensors["prototypes"])
                steps.held, steps.held_step = call.place(held)
        chain = call.chain(gradient.known, clients, params, into, trained, update, beside)
    except Elsewhere:
        return None
    return _Prepared(found, gradient.known, call, chain, steps)


def _floats(tensors: Params, prefix: str) -> Params:
    """Return the tensors with that prefix, named without it."""
    return {
        name.removeprefix(prefix): tensor.to(torch.float32)
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def accumulate(
    gradient: Gradient, params: Params, batch: Batch, own: Own, into: Params, keep: float
) -> Tensor | None:
    """Set ``into = keep * into + gradient``; return the probability that each class got.

    None, and nothing is changed, where it is not for the kernels.
    """
    ready = _prepared(gradient, params, own, into, update=False)
    if ready is None:
        return None
    clients, samples = batch.y.shape
    chosen = batch.x.new_empty(clients, samples)
    ready.steps.batch, ready.steps.keep = samples, keep
    try:
        ready.steps.chosen, ready.steps.chosen_step = ready.call.place(chosen, True)
        ready.run(batch.x, [samples] * clients, batch.y, None, batch.weight)
    except Elsewhere:
        return None
    return chosen


def descend(
    gradient: Gradient,
    params: Params,
    data: Stack,
    turn: Turn,
    settings: TrainingSettings,
    *,
    epochs: int,
    phase: str,
    steps: int | None,
) -> tuple[Params, Tensor] | None:
    """Return the trained parameters, and each client's mean cross-entropy on the way.

    As :func:`fedsub_core.training.batches.each_batch` with SGD's steps; None, and nothing is
    changed, where it is not for the kernels.
    """
    plain = settings.optimiser == "sgd" and not settings.clip_norm
    # Bytes are floats only in a batch: their steps go through `accumulate`, one by one.
    floats = data.x.is_floating_point() and data.x.device.type == "cpu"
    if not (plain and gradient.known and kernels() and floats):
        return None
    whole = torch.contiguous_format
    rows = {name: params[name].clone(memory_format=whole) for name in gradient.names}
    into = {name: torch.zeros_like(tensor) for name, tensor in rows.items()}
    own = gradient.split(gradient.stacked())
    ready = _prepared(gradient, params | rows, own, into, update=True)
    if ready is None:
        return None
    size, loss = settings.batch_size, torch.zeros(len(data.counts))
    how = ready.steps
    how.batch, how.steps, how.keep = size, steps or 0, settings.momentum
    how.rate, how.decay = settings.rate(turn.round), settings.weight_decay
    how.loss, _ = ready.call.place(loss, True)
    epochs = epochs if steps is None else 1
    try:
        for epoch in range(epochs):
            order, weight = order_of_epoch(data, size, turn, stream_of(phase, epoch))
            ready.run(data.x, data.counts, data.y, order, weight)
    except Elsewhere:  # only `rows`, which nobody has yet, may have changed
        return None
    each = [-(-n // size) * epochs if steps is None else steps * (n > 0) for n in data.counts]
    return rows, loss / torch.tensor(each)
