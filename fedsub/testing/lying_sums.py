"""Lies about sums: what no samples have, and what some have that nobody does.

Each changes honest class sums [classes, D + 1] and products about the mean [D + 1, D + 1], in
levels; as many samples are said as the person has.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, Statistics, about_zero, below, squared
from fedsub_core.errors import MessageRefused
from fedsub_core.method_parts.ridge_tensors import CROSS, GRAM, SHIFTS
from fedsub_core.wire.bundles import Bundle, Floats, Part, Whole
from fedsub_core.wire.envelope import refusal
from strategies.methods.fedsub_ridge.checks import check_rounded

Array = NDArray[np.float64]
Sums = tuple[Array, Array]
Lie = Callable[[Sums], Sums]


def empty(sums: Sums) -> Sums:
    """Say that all products are 0."""
    return sums[0], 0 * sums[1]


def bound(sums: Sums) -> Sums:
    """Say that all products are as large as squares can be."""
    root = np.sqrt(_room(sums[0]))
    return sums[0], np.outer(root, root)


def torn(sums: Sums) -> Sums:
    """Say that all products are as large as the person's squares allow, with any signs."""
    cross, about = sums
    root = np.sqrt(np.diagonal(about))
    signs = np.tril(_signs((len(root), len(root))), -1)
    return cross, np.outer(root, root) * (signs + signs.T + np.eye(len(root)))


def line(sums: Sums) -> Sums:
    """Say that samples of a class lie at both ends of one line, as far apart as can be."""
    cross = sums[0]
    between = _between(cross)
    root = np.sqrt(np.maximum(_room(cross) - np.diagonal(between), 0)) * _signs(cross.shape[1])
    return cross, between + np.outer(root, root)


def strong(sums: Sums) -> Sums:
    """Say that features vary as much as they can, and have nothing to do with each other."""
    cross = sums[0]
    between = _between(cross)
    return cross, between + np.diag(np.maximum(_room(cross) - np.diagonal(between), 0))


def grown(sums: Sums) -> Sums:
    """Say that samples lie as much farther from their class's mean as fits."""
    cross, about = sums
    between = _between(cross)
    within, room = about - between, _room(cross) - np.diagonal(between)
    some = np.diagonal(within) > 0
    return cross, between + within * max((room[some] / np.diagonal(within)[some]).min(), 1)


def shrunk(sums: Sums) -> Sums:
    """Say that samples lie all in their class's mean."""
    return sums[0], _between(sums[0])


def classless(sums: Sums) -> Sums:
    """Say that all classes have one mean."""
    counts = sums[0][:, :1] / UNIT
    return counts * sums[0].sum(0) / counts.sum(), sums[1]


def swapped(sums: Sums) -> Sums:
    """Say of each class that the person has what is so of the next."""
    cross, about = sums
    held = np.flatnonzero(cross[:, 0] > 0)
    moved = cross.copy()
    moved[held] = cross[np.roll(held, 1)]
    return moved, about


def opposed(sums: Sums) -> Sums:
    """Say that each class lies on the other side of the mean, as far away."""
    cross, about = sums
    counts = cross[:, :1] / UNIT
    moved = 2 * counts * cross.sum(0) / counts.sum() - cross
    moved = np.clip(moved, -UNIT * counts, (UNIT - 1) * counts)
    moved[:, 0] = cross[:, 0]
    return moved, about - _between(cross) + _between(moved)


def corners(sums: Sums) -> Sums:
    """Put all samples of each class into a corner of its own."""
    counts = sums[0][:, :1] / UNIT
    moved = counts * np.where(_signs(sums[0].shape) > 0, UNIT - 1, -UNIT)
    moved[:, 0] = sums[0][:, 0]
    return moved, _between(moved)


def noisy(sums: Sums) -> Sums:
    """Say that each sample has each feature at one of its ends: no check can tell."""
    counts = np.rint(sums[0][:, 0] / UNIT).astype(int)
    ends = _signs((counts.sum(), sums[0].shape[1]))
    x = np.where(ends > 0, UNIT - 1.0, -UNIT)
    x[:, 0] = UNIT
    cross = np.stack([part.sum(0) for part in np.split(x, np.cumsum(counts)[:-1])])
    away = x - np.rint(x.mean(0))
    return cross, away.T @ away


def edge(lie: Lie) -> Lie:
    """Go as far from the honest sums towards a lie as what the server checks lets pass."""

    def passing(sums: Sums) -> Sums:
        wrong, least, most = lie(sums), 0.0, 1.0
        for _ in range(12):
            part = (least + most) / 2
            found = tuple(a + part * (b - a) for a, b in zip(sums, wrong, strict=True))
            least, most = (part, most) if _passes(_sent(*found)) else (least, part)
        return tuple(a + least * (b - a) for a, b in zip(sums, wrong, strict=True))  # type: ignore

    return passing


#: By name; the server refuses the first three.
LIES: Mapping[str, Lie] = {
    "empty sums": empty,
    "bound sums": bound,
    "torn sums": torn,
    "empty sums, edge": edge(empty),
    "bound sums, edge": edge(bound),
    "torn sums, edge": edge(torn),
    "strong sums, edge": edge(strong),
    "line sums": line,
    "strong sums": strong,
    "noisy sums": noisy,
    "grown sums": grown,
    "shrunk sums": shrunk,
    "classless sums": classless,
    "swapped sums": swapped,
    "opposed sums": opposed,
    "corner sums": corners,
}


def lied(upload: Bundle, lie: Lie) -> Bundle:
    """Return an upload with other sums; what holds none as it is."""
    if GRAM not in upload.tensors:
        return upload
    shifts = upload.floats(SHIFTS).astype(np.int64)
    sent = rounded_lie(Rounded(upload.whole(GRAM), upload.whole(CROSS), shifts), lie)
    tensors: dict[str, Part] = {**upload.tensors, GRAM: Whole(sent.gram), CROSS: Whole(sent.cross)}
    tensors[SHIFTS] = Floats(sent.shifts.astype(np.float32))
    return replace(upload, tensors=tensors)


def rounded_lie(honest: Rounded, lie: Lie) -> Rounded:
    """Return other sums of as many samples, as they travel."""
    cross = honest.class_sums
    about = squared(honest.statistics().gram - about_zero(cross), cross.shape[1])
    return _sent(*lie((cross.astype(np.float64), about)))


class Late:
    """A lie that comes when everybody has settled: sums are sent once more, as of new samples."""

    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._honest: dict[int, Bundle] = {}

    def __call__(self, upload: Bundle, awake: bool) -> Bundle:
        """Return the honest upload before, and then one with other sums."""
        if GRAM in upload.tensors:
            self._honest[upload.version] = upload
        if not awake or upload.version not in self._honest:
            return upload
        return replace(lied(self._honest[upload.version], self._lie), version=upload.version ^ 1)


def _sent(cross: Array, about: Array) -> Rounded:
    whole, products = np.rint(cross).astype(np.int64), np.rint(about)
    products[0] = products[:, 0] = 0
    return Rounded.of(Statistics(below(products) + about_zero(whole), whole))


def _passes(sums: Rounded) -> bool:
    samples = sums.samples
    try:
        check_rounded(sums, samples, lambda *said: refusal("", 0, *said))
    except MessageRefused:
        return False
    return True


def _signs(shape: int | tuple[int, ...]) -> Array:
    return np.random.default_rng(1).choice([-1.0, 1.0], shape)


def _room(cross: Array) -> Array:
    """Return the largest square of each feature about its mean, [D + 1]."""
    samples = cross[:, 0].sum() / UNIT
    mean = np.rint(cross.sum(0) / samples)
    room = samples * UNIT**2 - 2 * mean * cross.sum(0) + samples * mean**2
    room = np.maximum(np.minimum(room, samples * UNIT**2 - samples * mean**2) - samples * UNIT, 0)
    room[0] = 0
    return np.asarray(room, np.float64)


def _between(cross: Array) -> Array:
    """Return the products of class means about the mean, [D + 1, D + 1]."""
    counts = cross[:, :1] / UNIT
    held = counts[:, 0] > 0
    away = (cross - counts * cross.sum(0) / counts.sum())[held] / np.sqrt(counts[held])
    found: Array = away.T @ away
    return found
