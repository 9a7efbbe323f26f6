"""Augmentation: random changes of training samples, drawn anew in each step.

Each function gets one client's samples of a step, ``x [n, *features]`` as the model sees them, and
a generator whose seed follows from the run's seed, the client, the round and the step alone. So a
client trains alike whoever shares its stack, and a run repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import pi
from typing import Any

from fedsub_core.config.parts import part_of, parts
from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.models.names import is_place
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.seeds import derive_seed
from fedsub_core.training.batches import Batch, Batches, Met, Step
from fedsub_core.training.own_functions import calling, function_at

TAKES = "(x [n, *features], generator)"
Function = Callable[[Tensor, Any], Any]


def jitter(x: Tensor, generator: torch.Generator, sigma: float = 0.05) -> Tensor:
    """Return samples with Gaussian noise of deviation `sigma` on every number."""
    return x + sigma * torch.randn(x.shape, generator=generator).to(x.device)


def scale(x: Tensor, generator: torch.Generator, sigma: float = 0.1) -> Tensor:
    """Return samples times a factor of each channel, Gaussian of mean 1 and deviation `sigma`."""
    drawn = torch.randn(x.shape[:2], generator=generator).to(x.device)
    return x * (1 + sigma * drawn).view(*x.shape[:2], *[1] * (x.ndim - 2))


def rotate(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return windows whose axes, three channels at a time, are turned by a random rotation.

    All triples of a window turn alike, as of one device that is worn otherwise; each rotation is
    as likely as any other.
    """
    windows(x, "rotate")
    if x.shape[1] % 3:
        raise ConfigError(
            f"rotate: got {x.shape[1]} channels, expected a multiple of 3: x, y and z of sensors"
        )
    turn, upper = torch.linalg.qr(torch.randn(len(x), 3, 3, generator=generator))
    turn = turn * upper.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    turn = turn * torch.linalg.det(turn).sign().view(-1, 1, 1)
    axes = x.reshape(len(x), -1, 3, x.shape[2])
    return torch.einsum("nij,nkjt->nkit", turn.to(x.device), axes).flatten(1, 2)


def time_warp(x: Tensor, generator: torch.Generator, sigma: float = 0.2, knots: int = 4) -> Tensor:
    """Return windows whose time runs faster and slower by a smooth random curve.

    Its speed is a sum of `knots` half waves of a sine with Gaussian weights of deviation `sigma`;
    a window keeps its first and its last moment.
    """
    windows(x, "time-warp")
    length = x.shape[2]
    weights = sigma * torch.randn(len(x), knots, generator=generator)
    grid = torch.linspace(0, 1, length)
    waves = torch.sin(pi * torch.arange(1, knots + 1).unsqueeze(1) * grid)
    speed = (weights @ waves).exp()
    at = torch.cat([torch.zeros(len(x), 1), speed[:, :-1].cumsum(1)], 1)
    at = (at / at[:, -1:].clamp_min(1e-12) * (length - 1)).to(x.device)
    low = at.floor().clamp(0, max(0, length - 2)).to(torch.int64)
    high, part = (low + 1).clamp_max(length - 1), (at - low).unsqueeze(1)
    below, above = (x.gather(2, i.unsqueeze(1).expand_as(x)) for i in (low, high))
    return below + part * (above - below)


def channel_drop(x: Tensor, generator: torch.Generator, share: float = 0.1) -> Tensor:
    """Return samples of which each channel is 0 with probability `share`.

    0 is a standardised channel's mean.
    """
    kept = (torch.rand(x.shape[:2], generator=generator) >= share).to(x.device)
    return x * kept.view(*x.shape[:2], *[1] * (x.ndim - 2))


CHANGES: dict[str, Function] = {
    one.__name__.replace("_", "-"): one for one in (jitter, scale, rotate, time_warp, channel_drop)
}


def windows(x: Tensor, name: str) -> None:
    """Raise a ConfigError if samples are no windows ``[channels, time]``."""
    if x.ndim != 3:
        raise ConfigError(
            f"{name}: got samples of shape {list(x.shape[1:])}, expected windows [channels, time]"
        )


def changes_of(text: str) -> list[tuple[str, Function]]:
    """Return the functions of a run's ``augment`` with their names; raises ConfigError."""
    found = []
    for part in parts(text, "augment"):
        if is_place(part.name):
            found.append((part.name, function_at(part, "augment", 2, TAKES)))
        else:
            known = part_of(part, CHANGES, "augment")
            found.append((part.name, part.bound(known, "augment", 2)))
    return found


def augmented(step: Step, text: str) -> Step:
    """Return the step on batches that are changed first, each client's samples by themselves.

    Raises ConfigError if a function fails, or changes shape or type, or makes numbers that are not
    finite; it names client and round.
    """
    changes = changes_of(text)

    def changed(params: dict[str, Tensor], batches: Batches) -> Met:
        return step(params, [_augmented(batch, changes) for batch in batches])

    return changed


def check_augment(text: str, shape: tuple[int, ...]) -> None:
    """Raise what :func:`augmented` would, of samples of a `shape` that a model sees."""
    changes = changes_of(text)
    if changes and isinstance(shape, Nodes):
        raise ConfigError("augment: got a graph's nodes, which are seen together, expected samples")
    dtype = torch.int64 if isinstance(shape, Tokens) else torch.float32
    x = torch.zeros(2, *shape, dtype=dtype)
    _changed(x, changes, torch.Generator().manual_seed(0), f"tried on samples {list(shape)}")


def _augmented(batch: Batch, changes: Sequence[tuple[str, Function]]) -> Batch:
    x, streams = batch.x.clone(), batch.streams
    assert streams is not None  # passes give them
    turn, what = streams.turn, f"{streams.name}: augmentation of step {streams.number}"
    for i, count in enumerate((batch.weight > 0).sum(1).tolist()):
        if not count:
            continue
        seed = derive_seed(turn.seed, streams.clients[i], turn.round, what)
        own = torch.Generator().manual_seed(seed)
        x[i, :count] = _changed(x[i, :count].clone(), changes, own, batch.at(i))
    return replace(batch, x=x)


def _changed(
    x: Tensor, changes: Sequence[tuple[str, Function]], generator: torch.Generator, where: str
) -> Tensor:
    for name, function in changes:
        with calling(f"augment {name}", where, f"samples of {TAKES}"):
            new = function(x, generator)
        got = ""
        if not isinstance(new, torch.Tensor):
            got = f"a {type(new).__name__}"
        elif (new.shape, new.dtype) != (x.shape, x.dtype):
            got = f"{str(new.dtype).removeprefix('torch.')} {list(new.shape)}"
        elif not bool(new.isfinite().all()) and bool(x.isfinite().all()):
            got = "numbers that are not finite"
        if got:
            kind = str(x.dtype).removeprefix("torch.")
            raise ConfigError(
                f"augment {name}: {where}: got {got}, expected finite numbers of the samples' "
                f"shape and type, {kind} {list(x.shape)}"
            )
        x = new
    return x
