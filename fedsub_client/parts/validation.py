"""A part of the training samples that a device holds back to judge models by."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack
from fedsub_core.seeds import generator

#: Multiples of it fill [0, 1) evenly, however many there are.
GOLDEN = 0.6180339887498949


def held_back(data: Stack, share: float) -> tuple[Stack, Stack]:
    """Return the trained and the held-back samples: of each class the last `share` is held back.

    In the order of the file, so that windows which overlap in time are not torn apart but at one
    place of each class, and that nothing moves from one round to the next. Rounded to samples; a
    class of two or more keeps one on each side, a class of one is trained. Samples that are the
    same count once, and are on one side. Who has no more than one of any class is judged by the
    samples it trains on.
    """
    count = _different(data).sum(1)
    wanted = (count.double() * share + 0.5).floor().clamp(min=1)
    judged = _last(data, wanted)
    trained = data.valid & ~judged
    return data.part(trained), data.part(judged | trained & ~judged.any(1, keepdim=True))


def share_held_back(data: Stack, share: float, seed: int) -> tuple[Stack, Stack]:
    """Return the trained and the held-back samples: a `share` of all of a person's.

    Of each class the last ones, as in :func:`held_back`; but where a class has so few that a share
    of it is less than a sample, some people hold one of it back: who, is drawn by `seed`. Every
    class keeps one that is trained. Who has few samples may hold none back.
    """
    count = _different(data).sum(1).double()
    draws = [torch.rand((), generator=generator(seed, c, 0, "held back")) for c in data.clients]
    start = torch.stack(draws).double().unsqueeze(1).to(count.device)
    # Each class by its own number, whatever others there are: what was trained never judges. Apart
    # by the golden ratio they are spread evenly, so that a person's whole part is near its share.
    label = torch.arange(count.shape[1], dtype=torch.float64, device=count.device)
    wanted = ((start + label * GOLDEN) % 1 + count * share).floor()
    judged = _last(data, wanted)
    return data.part(data.valid & ~judged), data.part(judged)


def _different(data: Stack) -> Tensor:
    """Return ``data.of_class()``, but of samples that are the same only the first."""
    if data.copies is None:
        return data.of_class()
    places = torch.arange(data.y.shape[1], device=data.y.device)
    return data.of_class() * (data.first_copies() == places).unsqueeze(2)


def _last(data: Stack, wanted: Tensor) -> Tensor:
    """Return a mask of the last `wanted` [clients, classes] samples of a class but its first."""
    different = _different(data)
    count = different.sum(1)
    first = (count - torch.minimum(wanted, count - 1)).gather(1, data.y)
    label = data.y.unsqueeze(2)
    place = (different.cumsum(1) - 1).gather(2, label).squeeze(2)
    judged = different.gather(2, label).squeeze(2).bool() & (place >= first)
    return judged if data.copies is None else data.valid & judged.gather(1, data.first_copies())
