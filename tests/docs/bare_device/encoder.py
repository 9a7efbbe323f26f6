"""Encoders in numpy, slowly: features of standardised samples, drawn as the page says."""

import hashlib
from itertools import combinations
from math import sqrt
from statistics import NormalDist

import numpy as np

from . import window_statistics

Array = np.ndarray


class Draws:
    """The stream of a run's encoder."""

    def __init__(self, seed: int) -> None:
        self.seed, self.place = seed, 0

    def raw(self) -> int:
        text = f"{self.seed}\x1f\x1f{self.place}\x1fencoder".encode()
        self.place += 1
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1

    def below(self, n: int) -> int:
        return self.raw() * n // 2**63

    def u(self) -> float:
        return (self.raw() // 2**11 + 0.5) / 2**52

    def up_to(self, most: int) -> int:
        return min(most, int((most + 1) ** self.u()))

    def some(self, k: int, n: int) -> list[int]:
        left = list(range(n))
        return sorted(left.pop(self.below(len(left))) for _ in range(k))


def encode(
    text: str,
    seed: int,
    x: Array,
    sensors: tuple[tuple[int, ...], ...] = (),
    own: Array | None = None,
) -> Array:
    """Return the features ``[n, features]`` of standardised samples; `own` are the person's."""
    text, *groups = text.split("+")
    kind, _, size = text.partition(":")
    q = steps(x)
    if kind == "kernels":
        levels = kernels(Draws(seed), int(size), q)
    else:
        ranked = kind == "ranks"
        first = q[:0] if own is None else steps(own)
        seen = [ranks(q, q[:0]), ranks(q, first)] if ranked else [q]
        levels = units(Draws(seed), int(size), q, seen)
    if groups:
        described = [window_statistics.levels(one.tolist(), groups, sensors) for one in q]
        levels = np.concatenate([described, levels], 1)
    return (levels / 128).astype(np.float32)


def steps(x: Array) -> Array:
    """Return samples in steps."""
    return np.minimum(2047, np.round(256 * np.clip(x.astype(np.float64), -8, 8))).astype(np.int64)


def ranks(q: Array, own: Array) -> Array:
    """Return the ranks of vectors among a person's."""
    normal = [round(256 * NormalDist().inv_cdf((i + 0.5) / 32)) for i in range(32)]
    found = np.empty_like(q)
    for f in range(q.shape[1]):
        values = sorted(normal + own[:, f].tolist())
        places = [values[(2 * i + 1) * len(values) // 64] for i in range(32)]
        for at, one in enumerate(q[:, f].tolist()):
            found[at, f] = 14 * (sum(p < one for p in places) - sum(p > one for p in places))
    return found


def kernels(draws: Draws, size: int, q: Array) -> Array:
    """Return the levels of windows ``[n, channels, time]``."""
    (n, channels, time), levels = q.shape, []
    for _ in range(size):
        d = draws.up_to(max(1, (time - 1) // 8))
        c = draws.up_to(min(channels, 9))
        which = draws.some(c, channels)
        places = list(combinations(range(9), 3))[draws.below(84)]
        thresholds = [round(256 * sqrt(18 * c) * (2 * draws.u() - 1)) for _ in range(4)]
        sums = np.zeros((n, time), np.int64)
        for t in range(time):
            for i in range(9):
                if 0 <= (at := t + (i - 4) * d) < time:
                    sums[:, t] += (2 if i in places else -1) * q[:, which, at].sum(1)
        for threshold in thresholds:
            levels.append((510 * (sums > threshold).sum(1) + time) // (2 * time) - 128)
        level = round(8 * sqrt(18 * c))
        levels.append(np.clip((2 * sums.max(1) + level) // (2 * level), -128, 127))
    return np.stack(levels, 1)


def units(draws: Draws, size: int, q: Array, seen: list[Array]) -> Array:
    """Return the levels of vectors ``[n, features]``."""
    n = q.shape[1]
    levels = list(np.minimum(127, (q + 8) // 16).T)
    for unit in range(size):
        inputs = draws.some(1 + draws.below(min(3, n)), n)
        w = np.array([NormalDist().inv_cdf(draws.u()) for _ in inputs])
        bias = round(16384 * (2 * draws.u() - 1))
        w = np.round(64 * w / np.sqrt((w**2).sum())).astype(np.int64)
        z = seen[unit % len(seen)][:, inputs] @ w + bias
        levels.append(np.minimum(127, (np.maximum(z, 0) + 256) // 512))
    return np.stack(levels, 1)
