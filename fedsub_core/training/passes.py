"""Passing over a stack of clients' data in mini-batches, each client in an order of its own.

Every client's order is drawn from a stream of its own (seed, client, round, phase, epoch), so a
client trains alike whoever shares its stack; two models that one client trains in one round see the
same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack, inputs, select_params, taken
from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Params
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.seeds import generator
from fedsub_core.training.augmentation import augmented
from fedsub_core.training.batches import Batch, Met, Step, Streams
from fedsub_core.training.precision import mixed
from fedsub_core.turn import Turn

#: Smallest probability that a loss takes a logarithm of.
_TINY = 1e-30


@dataclass(frozen=True)
class Passes:
    """Passes over clients' data: how many, in what pieces, and in which order.

    Parameters
    ----------
    steps : instead of whole epochs, as many for each client, from the first epoch's batches.
    phase : names the streams of a phase that has batches of its own.
    augment, precision : as :class:`fedsub_core.config.own_training.OwnTraining` has them.
    """

    epochs: int
    batch_size: int
    steps: int | None = None
    phase: str = ""
    augment: str = ""
    precision: str = "float32"

    @classmethod
    def of(
        cls,
        settings: TrainingSettings,
        phase: str = "",
        epochs: int | None = None,
        steps: int | None = None,
    ) -> Passes:
        """Return the passes of a round; `epochs` or `steps` replace the settings' work."""
        if epochs is None:
            epochs, steps = settings.epochs, settings.steps or None if steps is None else steps
        how = settings.augment, settings.precision
        return cls(epochs, settings.batch_size, steps, phase, *how)

    @property
    def streams(self) -> tuple[str, ...]:
        """Name of the stream that each epoch's order is drawn from."""
        begin = f"{self.phase}: " if self.phase else ""
        epochs = self.epochs if self.steps is None else 1
        return tuple(f"{begin}batches of epoch {epoch}" for epoch in range(epochs))


def each_batch(
    tensors: Params,
    data: Stack,
    turn: Turn,
    step: Step,
    passes: Passes,
    *,
    beside: Params | None = None,
    group: int = 1,
    fewest: int = 1,
) -> tuple[Params, Tensor]:
    """Return tensors after `step` has seen every batch of every epoch, and the mean loss it met.

    The `tensors` that were given stay as they are.

    Parameters
    ----------
    tensors : stacked, ``[clients, ...]``: parameters, or whatever a step changes.
    beside : stacked tensors that a step gets too and that nobody wants back, such as momentum; a
        step may change these very tensors.
    group : batches handed to one step. Where a client's last group is short, its first batches
        fill it up.
    fewest : samples of a batch, 1 or 2. Where it is 2, a last batch of one sample joins the one
        before.

    Raises ConfigError if a client has fewer samples than `fewest`.
    """
    # Longest first: as epochs end, the clients still training are always a prefix of the stack.
    order = sorted(range(len(data.counts)), key=lambda i: -data.counts[i])
    in_order = order == sorted(order)
    changed, met, beside = select_params(tensors, order), list[Met](), beside or {}
    step = augmented(step, passes.augment) if passes.augment else step
    rows = changed | (beside if in_order else select_params(beside, order))
    ordered = data if in_order else data.select(order)
    with torch.no_grad(), mixed(passes.precision, data.x.device):
        for stream in passes.streams:
            epoch = _Epoch(ordered, passes.batch_size, turn, stream, fewest)
            epoch.visit(rows, step, group, passes.steps, met)
        loss = _mean_loss(met, len(order), data.x.device)
    if not in_order:
        inverse = sorted(range(len(order)), key=order.__getitem__)
        changed, loss = select_params(changed, inverse), loss[inverse]
    return changed, loss


def _mean_loss(met: Sequence[Met], clients: int, device: torch.device) -> Tensor:
    """Return each client's cross-entropy, the mean over its steps."""
    total, steps = torch.zeros(clients, device=device), torch.zeros(clients, device=device)
    each: list[Tensor] = []
    for active, alike in groupby(met, key=lambda one: len(one.chosen)):
        chosen, weight = (torch.stack(tensors) for tensors in zip(*alike, strict=True))
        each.append(chosen.clamp_(min=_TINY).log_().mul_(weight).sum(2))
        steps[:active] += len(chosen)
    # One step after another: how a sum goes must not depend on how many share the stack.
    for losses in each:
        for of_step in losses:
            total[: len(of_step)] -= of_step
    return total / steps


class _Epoch:
    """One epoch's batches, longest client first."""

    def __init__(self, data: Stack, size: int, turn: Turn, stream: str, fewest: int) -> None:
        if data.context:  # a graph is seen whole, in one step
            size = data.y.shape[1]
        self.rows = tuple(map(sum, zip(data.counts, data.context, strict=False)))
        order, self.weight = order_of_epoch(data, size, turn, stream)
        self.x, self.y, self.scale = taken(data.x, order), taken(data.y, order), data.scale
        self.size, self.turn, self.clients, self.stream = size, turn, data.clients, stream
        self.batches = [-(-count // size) for count in data.counts]
        self.joined: Tensor | None = None
        if fewest > 1:
            self._join(data)

    def _join(self, data: Stack) -> None:
        """Let each client's last batch of one sample join the one before."""
        for client, count in zip(data.clients, data.counts, strict=True):
            if count == 1 or self.size == 1:
                had = "one training sample" if count == 1 else "batch-size = 1"
                raise ConfigError(
                    f"client {client!r}: got {had}, expected two samples in a step: the model has "
                    "a norm that goes by the batch. Raise batch-size, leave out who has one "
                    "sample, or take GroupNorm or LayerNorm"
                )
        alone = [count % self.size == 1 for count in data.counts]
        if any(alone):
            self.joined = torch.tensor(alone, device=self.x.device)
            self.batches = [have - one for have, one in zip(self.batches, alone, strict=True)]

    def visit(
        self, tensors: Params, step: Step, group: int, steps: int | None, met: list[Met]
    ) -> None:
        """Hand all batches to `step`, or wrap around until `steps`; add what it met to `met`."""
        batches = self.batches
        todo = -(-batches[0] // group) if steps is None else steps
        active, views = -1, tensors
        for number in range(todo):
            now = sum(have > number * group for have in batches) if steps is None else len(batches)
            if now != active:
                active = now
                views = {name: tensor[:active] for name, tensor in tensors.items()}
            wanted = range(number * group, (number + 1) * group)
            met.append(step(views, [self._batch(i, batches[:active], len(met)) for i in wanted]))

    def _batch(self, i: int, batches: Sequence[int], number: int) -> Batch:
        """Return the `i`-th batch of the first clients; who has fewer begins anew."""
        rows, size = slice(len(batches)), self.size
        streams = Streams(self.turn, self.clients[rows], self.stream, i)
        if i < batches[-1] and self.joined is None:  # longest first: so all have it
            cols = slice(i * size, (i + 1) * size)
            x, y, weight = (t[rows, cols] for t in (self.x, self.y, self.weight))
            return self._made(x, y, weight, number, streams)
        have = torch.tensor(batches, device=self.x.device).unsqueeze(1)
        wanted = i % have
        some = wanted * size + torch.arange(size + (self.joined is not None), device=self.x.device)
        if self.joined is None:
            x, y, weight = (taken(t[rows], some) for t in (self.x, self.y, self.weight))
            return self._made(x, y, weight, number, streams)
        longer = self.joined[rows].unsqueeze(1) & (wanted == have - 1)
        some[:, -1:] = torch.where(longer, some[:, -1:], 0)  # nothing of the next batch
        x, y, weight = (taken(t[rows], some) for t in (self.x, self.y, self.weight))
        weight[:, -1:] = 0
        weight = torch.where(longer, 1 / (size + 1), weight)
        return self._made(x, y, weight, number, streams)

    def _made(self, x: Tensor, y: Tensor, weight: Tensor, number: int, streams: Streams) -> Batch:
        """Return the batch of samples of the first clients, as a model sees them."""
        rows = slice(len(x))
        seen = inputs(x, None if self.scale is None else self.scale[rows])
        whole = self.y[rows], self.weight[rows]
        return Batch(seen, y, weight, number, streams, self.rows[rows], whole)


def order_of_epoch(data: Stack, size: int, turn: Turn, stream: str) -> tuple[Tensor, Tensor]:
    """Return each client's order of samples, and each place's weight in its batch's mean.

    Both ``[clients, batches * size]``; padding has weight 0. What a graph's samples are seen with
    stands where it is, behind them.
    """
    longest = -(-max(data.counts) // size) * size
    order = torch.zeros(len(data.counts), longest, dtype=torch.int64)
    if data.context:
        order[:] = torch.arange(longest)
    weight = torch.zeros(len(data.counts), longest)
    for i, (client, count) in enumerate(zip(data.clients, data.counts, strict=True)):
        own = generator(turn.seed, client, turn.round, stream)
        order[i, :count] = torch.randperm(count, generator=own)
        full = count // size * size
        weight[i, :full] = 1 / size
        if count > full:
            weight[i, full:count] = 1 / (count - full)
    return order.to(data.x.device), weight.to(data.x.device)
