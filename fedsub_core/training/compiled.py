"""Training by the compiled kernels: gradients and SGD on what an objective's terms give.

They know each of cross-entropy, a pull, a mask and a pull to prototypes once
(:mod:`fedsub_core.backend` decides). Everything else is PyTorch's, which is their oracle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.kernels import library
from fedsub_core.kernels.chains import Call
from fedsub_core.kernels.known import Known
from fedsub_core.kernels.library import Kernels, Steps, check
from fedsub_core.models.model import Params
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.training.batches import Batch
from fedsub_core.training.objectives import Masked, Own, PrototypePull, Pull, Term
from fedsub_core.training.passes import Passes, order_of_epoch
from fedsub_core.turn import Turn


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


@dataclass(frozen=True)
class Compiled:
    """An objective on a model, both known to the kernels.

    Parameters
    ----------
    terms : of the objective.
    """

    kernels: Kernels
    model: Sequence[Known]
    terms: Sequence[Term]
    names: Collection[str]

    def accumulate(
        self, params: Params, batch: Batch, own: Own, into: Params, keep: float
    ) -> Tensor:
        """Set ``into = keep * into + gradient``; return the probability that each class got.

        Raises ValueError if tensors do not fit the model.
        """
        ready = self._prepared(params, own, into, update=False)
        clients, samples = batch.y.shape
        chosen = batch.x.new_empty(clients, samples)
        ready.steps.batch, ready.steps.momentum = samples, keep
        ready.steps.chosen = ready.call.place(chosen, True)
        ready.run(batch.x, [samples] * clients, batch.y, None, batch.weight)
        return chosen

    def descend(
        self,
        params: Params,
        own: Own,
        data: Stack,
        turn: Turn,
        settings: TrainingSettings,
        passes: Passes,
    ) -> tuple[Params, Tensor]:
        """Return the trained parameters, and each client's mean cross-entropy on the way.

        As :func:`fedsub_core.training.passes.each_batch` with SGD's steps; `params` stay as they
        are.

        Raises ValueError if tensors do not fit the model.
        """
        whole = torch.contiguous_format
        rows = {name: params[name].clone(memory_format=whole) for name in self.names}
        into = {name: torch.zeros_like(tensor) for name, tensor in rows.items()}
        ready = self._prepared(params | rows, own, into, update=True)
        size, steps, loss = passes.batch_size, passes.steps, torch.zeros(len(data.counts))
        how = ready.steps
        how.batch, how.steps, how.momentum = size, steps or 0, settings.momentum
        how.rate, how.decay = settings.rate(turn.round), settings.weight_decay
        how.loss = ready.call.place(loss, True)
        for stream in passes.streams:
            order, weight = order_of_epoch(data, size, turn, stream)
            ready.run(data.x, data.counts, data.y, order, weight)
        epochs = passes.epochs
        each = [-(-n // size) * epochs if steps is None else steps * (n > 0) for n in data.counts]
        return rows, loss / torch.tensor(each)

    def _prepared(self, params: Params, own: Own, into: Params, update: bool) -> _Prepared:
        """Return a call that changes `into`, and with `update` `params`, too."""
        call, steps = Call(), Steps(update=update)
        beside: dict[str, Params] = {}
        clients = len(next(iter(params.values())))
        for term, tensors in zip(self.terms, own, strict=True):
            if isinstance(term, Masked):
                beside["mask"] = _floats(tensors, "")
            elif isinstance(term, Pull):
                steps.pull = term.weight
                beside |= {kind: _floats(tensors, f"{kind}/") for kind in ("anchor", "where")}
            elif isinstance(term, PrototypePull):
                steps.toward = term.weight
                floats, last = _floats(tensors, ""), self.model[-1]
                call.demand(floats["prototypes"], clients, last.units * last.channels)
                call.demand(floats["held"], clients, last.units)
                steps.prototypes = call.place(floats["prototypes"])
                steps.present = call.place(floats["held"])
        trained = {name.rpartition(".")[0] for name in self.names}
        chain = call.chain(self.model, clients, params, into, trained, update, beside)
        return _Prepared(self.kernels, self.model, call, chain, steps)


def _floats(tensors: Params, prefix: str) -> Params:
    """Return the tensors with that prefix as float32, named without it."""
    return {
        name.removeprefix(prefix): tensor.to(torch.float32)
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
