"""Local training: mini-batch SGD with momentum and cross-entropy, over a stack of clients.

Equivalent to PyTorch's ``SGD(momentum=...)`` with ``CrossEntropyLoss`` on each client alone; the
momentum buffer starts at zero in every round and the last partial batch is kept (FedSub's code
base: batch 32, momentum 0.9, rate 0.001 to 0.005).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack, select_params
from fedsub_core.models.chain import Model, Params, Step
from fedsub_core.seeds import generator


@dataclass(frozen=True)
class TrainingSettings:
    """Local training's settings and the run's seed."""

    epochs: int = 1
    lr: float = 0.005
    momentum: float = 0.9
    batch_size: int = 32
    seed: int = 0


def train(
    model: Model, params: Params, data: Stack, settings: TrainingSettings, round: int
) -> Params:
    """Return the parameters after `settings.epochs` epochs; `params` is left as it is.

    Batches are drawn from a stream derived from the seed, the client, the round and the epoch, so
    a client trains alike whoever shares its stack.
    """
    # Longest first: as epochs end, the clients still training are always a prefix of the stack.
    order = sorted(range(len(data.counts)), key=lambda i: -data.counts[i])
    trained = select_params(params, order)
    ordered = data if order == sorted(order) else data.select(order)
    momentum = {name: torch.zeros_like(tensor) for name, tensor in trained.items()}
    with torch.no_grad():
        for epoch in range(settings.epochs):
            _epoch(model, trained, momentum, ordered, settings, round, epoch)
    if order == sorted(order):
        return trained
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return select_params(trained, inverse)


def _epoch(
    model: Model,
    params: Params,
    momentum: Params,
    data: Stack,
    settings: TrainingSettings,
    round: int,
    epoch: int,
) -> None:
    size = settings.batch_size
    order, weight = _batches(data, settings, round, epoch)
    clients = torch.arange(len(data.clients), device=data.x.device).unsqueeze(1)
    x, y = data.x[clients, order], data.y[clients, order]
    active, p, m = -1, params, momentum
    for start in range(0, order.shape[1], size):
        now = sum(count > start for count in data.counts)
        if now != active:
            active = now
            p = {name: tensor[:active] for name, tensor in params.items()}
            m = {name: tensor[:active] for name, tensor in momentum.items()}
        batch = slice(start, start + size)
        tape: list[Step] = []
        logits = model.forward(p, x[:active, batch], tape)
        grad = _cross_entropy_gradient(logits, y[:active, batch], weight[:active, batch])
        model.accumulate_gradients(p, tape, grad, into=m, keep=settings.momentum)
        torch._foreach_add_(list(p.values()), list(m.values()), alpha=-settings.lr)


def _batches(
    data: Stack, settings: TrainingSettings, round: int, epoch: int
) -> tuple[Tensor, Tensor]:
    """Return each client's order of samples and each sample's weight in its batch's mean.

    Both ``[clients, batches * batch_size]``; padding has weight 0.
    """
    size = settings.batch_size
    longest = -(-max(data.counts) // size) * size
    order = torch.zeros(len(data.counts), longest, dtype=torch.int64)
    weight = torch.zeros(len(data.counts), longest)
    for i, (client, count) in enumerate(zip(data.clients, data.counts, strict=True)):
        stream = generator(settings.seed, client, round, f"batches of epoch {epoch}")
        order[i, :count] = torch.randperm(count, generator=stream)
        full = count // size * size
        weight[i, :full] = 1 / size
        if count > full:
            weight[i, full:count] = 1 / (count - full)
    return order.to(data.x.device), weight.to(data.x.device)


def _cross_entropy_gradient(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradient of ``sum(weight * cross_entropy(logits, y))`` with respect to `logits`."""
    grad = logits.softmax(-1)
    grad.scatter_add_(-1, y.unsqueeze(-1), grad.new_full((1, 1, 1), -1.0).expand(*y.shape, 1))
    return grad.mul_(weight.unsqueeze(-1))
