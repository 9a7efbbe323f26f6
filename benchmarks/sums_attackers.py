"""From sums of features back to windows: what an attacker computes who has a person's sums.

Two steps. Features are whole numbers, so their products are the inner products of a lattice that is
``Z^n`` turned: the shortest basis (Lenstra, Lenstra and Lovász 1982) turns it back, and every
window's features stand there. Then gradients look for a window of these features.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT
from fedsub_core.encoders.kernels_encoder import LENGTH, OF_MAXIMUM, SQUARED, KernelsEncoder
from fedsub_core.encoders.names import PER_KERNEL

Floats = NDArray[np.float64]

#: Choices of features that are tried, and of how many samples: of more it takes minutes.
TRIES, MOST_SAMPLES = 4, 64
#: Of Lovász' condition: how much shorter a vector must be to come first.
_SHORTER = 0.99
#: How much longer a vector of the lattice is than a number of times that one is taken.
_HEAVY = 1e3


def exact_features(sent: Rounded) -> NDArray[np.intp]:
    """Return the features whose products nothing was rounded of, the constant (0) among them."""
    return np.flatnonzero(sent.shifts[1:] == 0)


def features_of_samples(sent: Rounded, samples: int) -> Floats | None:
    """Return the levels of each sample's features [n, D'], in some order; None: not found.

    Of :func:`exact_features`, the constant's in front. Exact where all products are.
    """
    exact = exact_features(sent)
    if samples > MOST_SAMPLES or len(exact) < 2 * samples + 8 or sent.shifts[0]:
        return None
    products = sent.statistics().square[np.ix_(exact, exact)] * UNIT**2
    values, vectors = np.linalg.eigh(products)
    # Column by column the same as the samples' levels, but for a rotation of the samples.
    turned = (np.sqrt(np.maximum(values[-samples:], 0)) * vectors[:, -samples:]).T
    for seed in range(TRIES):
        # A few more than a basis has are nearly always enough.
        some = np.random.default_rng(seed).permutation(len(exact))[: 2 * samples + 8]
        basis = reduced(turned.T[some])
        found: Floats = np.rint(basis @ turned) if len(basis) == samples else np.zeros_like(turned)
        if np.array_equal(found.T @ found, np.rint(products)):
            found *= np.where(found[:, :1] < 0, -1, 1)
            return found
    return None


def reduced(generators: Floats) -> Floats:
    """Return a short basis [n, n] of the lattice of `generators` [k, n], by LLL.

    Which vectors a basis is made of stands beside it, in whole numbers: so errors do not grow.
    """
    many, n = generators.shape
    rows = _lll(np.hstack([_HEAVY * generators, np.eye(many)]))
    # The others say of which vectors nothing is left.
    there = np.linalg.norm(rows[:, :n], axis=1) > _HEAVY / 2
    times = _lll(rows[there, n:] @ generators, rows[there, n:])
    return times @ generators


def _lll(basis: Floats, times: Floats | None = None) -> Floats:
    """Return the reduced basis; with `times`, these of it."""
    rows = basis.copy()
    moved = rows if times is None else np.hstack([rows, times])
    upper, k = np.linalg.qr(rows.T).R, 1
    while k < len(rows):
        _shortened(moved, upper, k, k - 1)
        if upper[k, k] ** 2 + upper[k - 1, k] ** 2 < _SHORTER * upper[k - 1, k - 1] ** 2:
            moved[[k - 1, k]] = moved[[k, k - 1]]
            upper[:, [k - 1, k]] = upper[:, [k, k - 1]]
            cos, sin = upper[k - 1 : k + 1, k - 1] / np.hypot(*upper[k - 1 : k + 1, k - 1])
            turn = np.array([[cos, sin], [-sin, cos]])
            upper[k - 1 : k + 1, k - 1 :] = turn @ upper[k - 1 : k + 1, k - 1 :]
            k = max(k - 1, 1)
        else:
            for j in range(k - 2, -1, -1):
                _shortened(moved, upper, k, j)
            k += 1
    return moved if times is None else moved[:, rows.shape[1] :]


def _shortened(rows: Floats, upper: Floats, k: int, j: int) -> None:
    if (times := np.rint(upper[j, k] / upper[j, j])) != 0:
        rows[k] -= times * rows[j]
        upper[: j + 1, k] -= times * upper[: j + 1, j]


@dataclass(frozen=True)
class SoftEncoder:
    """An encoder's features with gradients: shares above a threshold as means of sigmoids."""

    encoder: KernelsEncoder

    @cached_property
    def _by_dilation(self) -> list[tuple[int, list[int], Tensor]]:
        """Of each dilation: its kernels, and their weights [k, channels, 9]."""
        kernels, channels = self.encoder.kernels, self.encoder.input_shape[0]
        found = []
        for dilation in sorted({k.dilation for k in kernels}):
            those = [i for i, k in enumerate(kernels) if k.dilation == dilation]
            weight = torch.zeros(len(those), channels, LENGTH)
            for row, i in zip(weight, those, strict=True):
                ours = torch.full((LENGTH,), -1.0)
                ours[list(kernels[i].places)] = 2.0
                row[list(kernels[i].channels)] = ours
            found.append((dilation, those, weight))
        return found

    @cached_property
    def _scales(self) -> tuple[Tensor, Tensor]:
        """Of each kernel: deviation of its sum [k, 1], and thresholds over it [k, 4]."""
        kernels = self.encoder.kernels
        deviation = torch.tensor([[(SQUARED * len(k.channels)) ** 0.5] for k in kernels])
        thresholds = torch.tensor([k.thresholds for k in kernels]) / 256 / deviation
        return deviation, thresholds

    def __call__(self, x: Tensor, softness: float) -> Tensor:
        """Return features [n, 5 k] of windows [n, channels, time], `softness` in deviations."""
        deviation, thresholds = self._scales
        found = x.new_zeros(len(x), len(deviation), PER_KERNEL)
        for dilation, those, weight in self._by_dilation:
            sums = F.conv1d(x, weight, padding=LENGTH // 2 * dilation, dilation=dilation)
            z = sums / deviation[those]
            apart = z[:, :, None] - thresholds[those][:, :, None]
            found[:, those, :-1] = 2 * torch.sigmoid(apart / softness).mean(3) - 1
            found[:, those, -1] = (z.amax(2) / OF_MAXIMUM).clamp(-1, 1)
        return found.flatten(1)


def windows_of(
    encoder: KernelsEncoder, features: Tensor, start: Tensor, steps: int, rate: float = 0.05
) -> Tensor:
    """Return windows [n, channels, time] whose features come near to `features` [n, D].

    Adam from `start`; shares become as sharp as they are meant step by step.
    """
    soft, x = SoftEncoder(encoder), start.clone().requires_grad_()
    optimiser = torch.optim.Adam([x], rate)
    for step in range(steps):
        done = step / steps
        optimiser.param_groups[0]["lr"] = rate * (1 - done) + 1e-3
        apart = soft(x, 0.3 * (0.03 / 0.3) ** done) - features
        loss = apart.square().mean(1).sum()
        (x.grad,) = torch.autograd.grad(loss, x)
        optimiser.step()
    return x.detach()
