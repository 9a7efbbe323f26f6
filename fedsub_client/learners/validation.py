"""A part of the training samples that a device holds back to judge models by."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_core.data.stacks import Stack


def held_back(data: Stack, share: float) -> tuple[Stack, Stack]:
    """Return what is trained, and what is held back: of each class the last `share` of its samples.

    In the order of the file, so that windows which overlap in time are not torn apart but at one
    place of each class, and that nothing moves from one round to the next. Rounded to samples; a
    class of two or more keeps one on each side, a class of one is trained. Who has no more than one
    of any class is judged by the samples it trains on.
    """
    ones = F.one_hot(data.y) * data.valid.unsqueeze(2)
    label = data.y.unsqueeze(2)
    place = (ones.cumsum(1) - 1).gather(2, label).squeeze(2)
    count = ones.sum(1, keepdim=True).expand_as(ones).gather(2, label).squeeze(2)
    wanted = (count.double() * share + 0.5).floor().clamp(min=1)
    judged = data.valid & (place >= count - torch.minimum(wanted, count - 1))
    trained = data.valid & ~judged
    return _part(data, trained), _part(data, judged | trained & ~judged.any(1, keepdim=True))


def _part(data: Stack, chosen: Tensor) -> Stack:
    """Return the chosen samples ``[clients, samples]`` of each client, in their order."""
    counts = chosen.sum(1)
    order = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(counts.max())]
    clients = torch.arange(len(order), device=order.device).unsqueeze(1)
    real = torch.arange(order.shape[1], device=order.device) < counts.unsqueeze(1)
    x = data.x[clients, order]
    x *= real.view(*real.shape, *[1] * (x.ndim - 2))
    return replace(data, x=x, y=data.y[clients, order] * real, counts=tuple(counts.tolist()))
