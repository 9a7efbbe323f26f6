"""The spectrum of windows in whole numbers: log powers of eight bands, their entropy, the peak.

A radix-2 transform (Cooley and Tukey 1965) in Stockham's order. Where it rounds is fixed, so that
it has the same bits everywhere.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedsub_core.encoders.encoder import FULL
from fedsub_core.encoders.whole import OCTAVE, Whole, octaves, powers

#: Bits of a cosine, what rounds halves up, and the first stages, whose values are not halved.
COSINE = 12
HALF, WHOLE = 2 ** (COSINE - 1), 6
#: Parts of equal width into which frequencies are divided up to half the sampling rate; and where
#: the eight bands begin and end: each is some 1.6 times as high as the one before it.
CELLS, EDGES = 64, (0, 2, 3, 5, 8, 13, 23, 38, 64)
#: log2 of a band's mean square, in steps, that is level 0, and parts of an octave a level: all
#: levels are 24 octaves, from quieter than a step to louder than what is clipped.
MIDDLE, BAND = 8, 3
#: The cells' shares, of which the entropy is computed, add up to less than two to one more.
SHARES = 15


def length_of(time: int) -> int:
    """Return the length of the transform of `time` samples, with zeros behind them."""
    return max(2 * CELLS, 1 << (time - 1).bit_length())


@cache
def turns(length: int) -> NDArray[np.int32]:
    """Return both parts of ``exp(-2 pi i k / length)``, k below half of it: ``[length / 2, 2]``."""
    angle = 2 * np.pi * np.arange(length // 2) / length
    both = 2**COSINE * np.stack([np.cos(angle), -np.sin(angle)], 1)
    found: NDArray[np.int32] = np.rint(both).astype(np.int32)
    return found


def halvings(length: int) -> int:
    """Return how many stages of a transform are halved: all but the first six."""
    return length.bit_length() - 1 - WHOLE


def transform(c: Whole, length: int) -> tuple[Whole, Whole]:
    """Return the transform of ``c [n, time]`` over 2**halvings: two parts ``[n, length]``.

    |c| is 2**12 at most, so that values are, but for what rounding adds, 2**18 after six stages and
    ever after. Differences that are multiplied are 2**18, products 2**30: 32 bits are enough. What
    rounding adds is below 2**-10 of that: 18 stages whose cosines are 2**-13 off, and units.
    """
    n, time = c.shape
    re = np.zeros((n, length), np.int64)
    re[:, :time] = c
    im, table = np.zeros_like(re), turns(length).astype(np.int64)
    for stage in range(length.bit_length() - 1):
        cos, sin = table[:: 1 << stage].T[:, :, None]
        (a, b), (c, d) = (part.reshape(n, 2, -1, 1 << stage).swapaxes(0, 1) for part in (re, im))
        p, x, q, y = (z + 1 >> 1 if stage >= WHOLE else z for z in (a + b, a - b, c + d, c - d))
        turned = (z + HALF >> COSINE for z in (x * cos - y * sin, x * sin + y * cos))
        re, im = (np.stack(two, 2).reshape(n, length) for two in zip((p, q), turned, strict=True))
    return re, im


def cells(c: Whole) -> Whole:
    """Return the power in each of the cells, ``[n, CELLS]``, of ``c [n, time]``.

    By Parseval's theorem they add up to ``length`` times the sum of squares, 2**60, or little more.
    """
    length = length_of(c.shape[1])
    re, im = transform(c, length)
    power = (re * re + im * im)[:, 1 : length // 2 + 1]
    found: Whole = power.reshape(len(c), CELLS, -1).sum(2) << 2 * halvings(length)
    return found


def spectrum(c: Whole) -> Whole:
    """Return the levels ``[n, 10]`` of centred ``c [n, time]``: bands, entropy, peak.

    The entropy is 127 where all cells are alike; the peak is the strongest cell, the first of them.
    """
    time, power = c.shape[1], cells(c)
    bands = np.add.reduceat(power, EDGES[:-1], axis=1) // time
    # 2 power / (time length) is a band's mean square.
    middle = OCTAVE * (length_of(time).bit_length() - 2 + MIDDLE)
    found = np.empty((len(c), len(EDGES) + 1), np.int64)
    found[:, :-2] = (octaves(bands + 1) - middle) // BAND
    total = np.maximum(power.sum(1), 1)
    shares = power >> np.maximum(powers(total) - SHARES, 0)[:, None]
    weight = np.maximum(shares.sum(1), 1)
    mean = (shares * octaves(np.maximum(shares, 1))).sum(1) // weight
    found[:, -2] = (octaves(weight) - mean) * 2 * FULL // (OCTAVE * 6) - FULL
    found[:, -1] = power.argmax(1) * 2 * FULL // CELLS - FULL
    return np.clip(found, -FULL, FULL - 1)
