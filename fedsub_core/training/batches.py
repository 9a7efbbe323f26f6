"""Passing over a stack of clients' data in mini-batches, each client in an order of its own.

Every client's order is drawn from a stream of its own (seed, client, round, phase, epoch), so a
client trains alike whoever shares its stack; two models that one client trains in one round see the
same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack, select_params
from fedsub_core.models.chain import Params
from fedsub_core.seeds import generator
from fedsub_core.turn import Turn


@dataclass(frozen=True)
class Batch:
    """One step's samples of the clients that still have some.

    Parameters
    ----------
    x : [clients, samples, *features]
    y : int64 [clients, samples]
    weight : [clients, samples], each sample's share in its client's mean; 0 where padded.
    number : how many steps of this epoch came before.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    number: int


#: Changes stacked tensors in place: gets their rows of the clients that are active, and batches.
Step = Callable[[Params, Sequence[Batch]], None]


def each_batch(
    tensors: Params,
    data: Stack,
    turn: Turn,
    step: Step,
    *,
    epochs: int,
    batch_size: int,
    phase: str = "",
    group: int = 1,
) -> Params:
    """Return `tensors` after `step` has seen every batch of every epoch; they stay as they are.

    Parameters
    ----------
    tensors : stacked, ``[clients, ...]``: parameters, momentum, or whatever a step changes.
    phase : names the streams of a phase that has batches of its own.
    group : batches handed to one step. Where a client's last group is short, its first batches
        fill it up.
    """
    # Longest first: as epochs end, the clients still training are always a prefix of the stack.
    order = sorted(range(len(data.counts)), key=lambda i: -data.counts[i])
    in_order = order == sorted(order)
    changed = select_params(tensors, order)
    ordered = data if in_order else data.select(order)
    with torch.no_grad():
        for epoch in range(epochs):
            _epoch(changed, ordered, step, batch_size, group, turn, _stream(phase, epoch))
    if in_order:
        return changed
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return select_params(changed, inverse)


def _stream(phase: str, epoch: int) -> str:
    return f"{phase}: batches of epoch {epoch}" if phase else f"batches of epoch {epoch}"


def _epoch(
    tensors: Params, data: Stack, step: Step, size: int, group: int, turn: Turn, stream: str
) -> None:
    order, weight = _batches(data, size, turn, stream)
    clients = torch.arange(len(data.clients), device=data.x.device).unsqueeze(1)
    x, y = data.x[clients, order], data.y[clients, order]
    batches = torch.tensor([-(-count // size) for count in data.counts], device=x.device)
    active, views = -1, tensors
    for number, start in enumerate(range(0, order.shape[1], group * size)):
        now = sum(count > start for count in data.counts)
        if now != active:
            active = now
            views = {name: tensor[:active] for name, tensor in tensors.items()}
        if group == 1:
            rows, cols = slice(active), slice(start, start + size)
            step(views, [Batch(x[rows, cols], y[rows, cols], weight[rows, cols], number)])
            continue
        wanted = [(number * group + i) % batches[:active] for i in range(group)]
        step(views, [_batch(x, y, weight, one, size, number) for one in wanted])


def _batch(x: Tensor, y: Tensor, weight: Tensor, wanted: Tensor, size: int, number: int) -> Batch:
    """Return each active client's batch of its own number."""
    rows = torch.arange(len(wanted), device=x.device).unsqueeze(1)
    samples = wanted.unsqueeze(1) * size + torch.arange(size, device=x.device)
    return Batch(x[rows, samples], y[rows, samples], weight[rows, samples], number)


def _batches(data: Stack, size: int, turn: Turn, stream: str) -> tuple[Tensor, Tensor]:
    """Return each client's order of samples and each sample's weight in its batch's mean.

    Both ``[clients, batches * size]``; padding has weight 0.
    """
    longest = -(-max(data.counts) // size) * size
    order = torch.zeros(len(data.counts), longest, dtype=torch.int64)
    weight = torch.zeros(len(data.counts), longest)
    for i, (client, count) in enumerate(zip(data.clients, data.counts, strict=True)):
        own = generator(turn.seed, client, turn.round, stream)
        order[i, :count] = torch.randperm(count, generator=own)
        full = count // size * size
        weight[i, :full] = 1 / size
        if count > full:
            weight[i, full:count] = 1 / (count - full)
    return order.to(data.x.device), weight.to(data.x.device)
