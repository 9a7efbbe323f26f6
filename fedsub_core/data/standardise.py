"""Standardisation from moments that clients can sum: per feature, or per channel.

Raw windows and images have channels; token ids are not standardised.

Where an encoder stands in front of a model that is trained, its features are standardised, too
(:mod:`fedsub_core.encoders.standardised`).

Only moments of training parts may be given: test samples must not shape their own scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.samples import LEVELS, Samples
from fedsub_core.errors import DataError

#: The largest size of a value that sums, and sums of squares, are taken of.
LARGEST_VALUE = 1e15
#: By how much sums of squares may err.
ROUNDING = 1e-9
# A spread below this share of the mean is rounding noise of float32 itself (2**-24 = 6e-8), and
# about where sums of squares in float64 stop resolving a variance (1e-14 of the squared mean).
_NOISE = 1e-7
#: Images of which the pixels are counted at a time.
_COUNTED = 256


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums from which a mean and a standard deviation follow; sums of clients add up.

    Parameters
    ----------
    count : int
        Values per feature: n for ``x [n, F]``, n * time for ``x [n, F, time]``.
    sum, sumsq : float64 [F]
        Sum of the values and of their squares; [0] of token ids, which are no values.
    """

    count: int
    sum: NDArray[np.float64]
    sumsq: NDArray[np.float64]

    def vector(self) -> NDArray[np.float64]:
        """Return all numbers, float64 ``[1 + 2 F]``; those of clients add up."""
        return np.concatenate([np.array([self.count], np.float64), self.sum, self.sumsq])

    @classmethod
    def of_vector(cls, vector: NDArray[np.float64]) -> Moments:
        """Inverse of :meth:`vector`."""
        total, squares = np.split(vector[1:], 2)
        return cls(int(vector[0]), total, squares)

    def fault(self, largest: float = LARGEST_VALUE) -> str:
        """Return why no numbers, of `largest` size at most, have these sums; "": some do."""
        if not np.isfinite(self.vector()).all():
            return "NaN or infinite numbers"
        if self.count < 1:
            return "sums of no values"
        mean, square = self.sum / self.count, self.sumsq / self.count
        if not (np.abs(mean) <= largest).all() or not (square / largest <= largest).all():
            return f"sums up to {np.abs(self.vector()).max():g}, of values above {largest:g}"
        # No numbers have a mean of squares below the square of their mean, but for rounding.
        if not (np.square(mean) <= square * (1 + ROUNDING)).all():
            return "squares that sum to less than the square of the sum allows"
        return ""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is subtracted and what is divided by.

    Parameters
    ----------
    mean, std : float32 [F]
    features : the same of what an encoder makes of samples so standardised; None: they stay as
        they are, or there is no encoder.
    """

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    features: Scaling | None = None

    @property
    def bits(self) -> bytes:
        """All its numbers: equal where these are."""
        own = self.mean.tobytes() + self.std.tobytes()
        return own if self.features is None else own + self.features.bits


def moments(x: Samples) -> Moments:
    """Return the moments of ``x [n, F]``, ``[n, F, time]`` or ``[n, F, height, width]``.

    They are summed in float64. Those of uint8 are exact, and no copy of all samples is made; of
    token ids, int32, there are none.
    """
    if x.dtype == np.int32:
        return Moments(len(x), np.zeros(0), np.zeros(0))
    if x.dtype == np.uint8:
        return _moments_of_bytes(x)
    # Features first and contiguous: numpy then sums pairwise, with an error of log(n) roundings.
    rows = np.ascontiguousarray(np.moveaxis(x, 1, 0), np.float64).reshape(x.shape[1], -1)
    return Moments(rows.shape[1], rows.sum(axis=1), np.square(rows).sum(axis=1))


def _moments_of_bytes(x: Samples) -> Moments:
    """Return moments by how often each channel has each of its 256 values."""
    often = np.zeros((x.shape[1], LEVELS), np.int64)
    for start in range(0, len(x), _COUNTED):
        for channel, pixels in enumerate(np.moveaxis(x[start : start + _COUNTED], 1, 0)):
            often[channel] += np.bincount(pixels.ravel(), minlength=LEVELS)
    value = np.arange(LEVELS, dtype=np.int64)
    sums = [(often @ values).astype(np.float64) for values in (value, value**2)]
    return Moments(int(often[0].sum()), *sums)


def pool(parts: Sequence[Moments]) -> Moments:
    """Return the moments of several clients together, whatever their order.

    Raises DataError where there is none, or where they differ in the number of features.
    """
    widths = sorted({len(m.sum) for m in parts})
    if len(widths) != 1:
        raise DataError(
            f"moments of {len(parts)} clients have feature counts {widths}; expected one count. "
            "Check that all clients hold the same features."
        )
    # fsum is exactly rounded, so the order of clients cannot change a bit.
    return Moments(
        sum(m.count for m in parts),
        np.array([math.fsum(column) for column in zip(*(m.sum for m in parts), strict=True)]),
        np.array([math.fsum(column) for column in zip(*(m.sumsq for m in parts), strict=True)]),
    )


def median_pool(parts: Sequence[Moments]) -> Moments:
    """Return moments of one typical client: medians over clients, each of which counts alike.

    Per feature the median of the means, and the median of the mean squares about it. However wrong
    fewer than half of the clients are, both lie among those of the others.

    Raises DataError; as :func:`pool`.
    """
    pool(parts)  # the same border
    means = np.stack([m.sum / m.count for m in parts])
    squares = np.stack([m.sumsq / m.count for m in parts])
    centre = np.median(means, axis=0)
    # E(x - c)^2 = Var(x) + (E x - c)^2
    spread = np.median(squares - np.square(means) + np.square(means - centre), axis=0)
    return Moments(1, centre, spread + np.square(centre))


#: How clients' moments make the federation's, by what `standardise` says; else nothing is shared.
POOLS = {"federation": pool, "federation-median": median_pool}


def scaling(m: Moments) -> Scaling:
    """Return mean and (population) standard deviation; a feature without spread has std 1.

    Limit: a standard deviation below 1e-7 of the mean's size counts as none. That is the
    resolution of float32 data, so nothing that a client could have stored is lost.
    """
    if m.count < 1:
        raise DataError("moments of no sample; expected one at least. Give the client data.")
    mean = m.sum / m.count
    variance = m.sumsq / m.count - np.square(mean)
    flat = variance <= np.square(mean * _NOISE)
    std = np.sqrt(np.where(flat, 1.0, variance)).astype(np.float32)
    std[std < np.finfo(np.float32).tiny] = 1.0
    return Scaling(mean.astype(np.float32), std)


def of_bytes(channels: int) -> Scaling:
    """Return the scaling of bytes to shares of their range, 0 to 1, where nothing standardises."""
    return Scaling(np.zeros(channels, np.float32), np.full(channels, LEVELS - 1, np.float32))


def apply(scale: Scaling, x: Samples) -> NDArray[np.float32]:
    """Return ``(x - mean) / std``, float32 and of the shape of `x`, features in its second axis."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scaled: NDArray[np.float32] = (x - scale.mean.reshape(shape)) / scale.std.reshape(shape)
    return scaled
