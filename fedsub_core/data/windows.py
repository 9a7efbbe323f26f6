"""How a client's windows lie in time: their length, overlap and moments, and gaps between parts.

What the card leaves out is taken from the file: a raw window's length from its samples and the
sampling rate, overlap from the times ``t``. Card and file that contradict each other are refused.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
#: By what a client's windows are put in order of time.
Known = Literal["seconds from t", "order of t", "order of the file", "unknown"]

#: Windows that only touch must not count as overlapping because of a rounding error.
_TOUCHING = 1e-6
#: In lengths of a window. No choice of a person's windows leaves half of them so far apart.
_SURELY_APART = 100.0


def window_seconds(client: ClientData, card: Card) -> float | None:
    """Return how long one window is, s; None where neither card nor file says.

    The card's ``window_s``, else what follows from a raw window's samples and the sampling rate.
    """
    if card.window_s is None and client.x.ndim == 3 and card.sampling_rate_hz is not None:
        return int(client.x.shape[2]) / card.sampling_rate_hz
    return card.window_s


def overlaps(client: ClientData, card: Card) -> FloatArray:
    """Return the overlaps of windows with their successors in time, as ``t`` shows, float64 [k].

    Shares of a window, above 0; none where ``t`` or the window's length is missing.
    """
    length = window_seconds(client, card)
    if client.t is None or length is None:
        return np.zeros(0)
    shared = 1 - np.diff(np.sort(client.t)) / length
    return shared[shared > _TOUCHING]


def together(client: ClientData, card: Card) -> int:
    """Return how many windows start within a window's length, by the card or by ``t``.

    They hold much the same: of windows of 60 s every 5 s 12, of windows that do not overlap 1, of
    two devices that record at once twice as many.
    """
    said, seen = round(1 / max(1 - (card.overlap or 0), 1 / len(client.y))), 1
    length = window_seconds(client, card)
    if client.t is not None and length is not None:
        t = np.sort(client.t)
        ends = np.searchsorted(t, t + length * (1 - _TOUCHING))
        seen = round(float(np.median(ends - np.searchsorted(t, t))))
    return max(said, seen)


def far_apart(client: ClientData, card: Card) -> bool:
    """Return whether windows by ``t`` start a hundred lengths apart: perhaps in milliseconds."""
    length = window_seconds(client, card)
    if client.t is None or length is None or len(client.t) < 2:
        return False
    return bool(np.median(np.diff(np.sort(client.t))) >= _SURELY_APART * length)


def time_known(client: ClientData, card: Card) -> Known:
    """Return by what the client's windows are put in order of time.

    ``seconds from t`` needs the window's length, and windows that by the card overlap must not lie
    a hundred lengths apart by ``t``: then it is in milliseconds, and an order alone.
    """
    if client.t is None:
        return "order of the file" if card.time_ordered else "unknown"
    if window_seconds(client, card) is None or (card.overlap and far_apart(client, card)):
        return "order of t"
    return "seconds from t"


def first_alike(client: ClientData, card: Card) -> NDArray[np.int64] | None:
    """Return the first sample alike each sample, int64 [n]; they are on one side of every split.

    Equal samples are alike, and so are windows that begin at one time by ``t``. None where no two
    samples are alike. If all times are the same, they are not used.
    """
    first, t = client.first_copies, client.t
    if t is None or time_known(client, card) != "seconds from t":
        return first
    times, earliest, moment = np.unique(t, return_index=True, return_inverse=True)
    if len(times) in (1, len(t)):
        return first
    if first is None:
        return earliest[moment].astype(np.int64)
    # A copy may be of another moment, which has copies itself: until nothing gets an earlier one.
    found, before = first, np.full(len(t), -1)
    while not np.array_equal(found, before):
        before = found
        for groups in (moment, first):
            least = np.full(len(t), len(t))
            np.minimum.at(least, groups, found)
            found = least[groups]
    return found


def gap_windows(card: Card) -> int:
    """Return the number of successors that share signal with a window; 0 also where unknown."""
    overlap = card.overlap or 0.0
    # 0.9 / (1 - 0.9) is 9.000000000000002 in floating point, and must not become 10.
    return math.ceil(overlap / (1 - overlap) - 1e-9)


def window_places(client: ClientData, card: Card) -> tuple[FloatArray, float]:
    """Return each window's place in time, and the distance below which two windows overlap."""
    n, length, gap = len(client.y), window_seconds(client, card), gap_windows(card)
    seconds = time_known(client, card) == "seconds from t"
    if client.t is not None and length is not None and seconds:
        return client.t, length * (1 - _TOUCHING)
    place = np.arange(n, dtype=np.float64)
    if client.t is not None:
        place[np.argsort(client.t, kind="stable")] = np.arange(n)
    elif not card.time_ordered:
        # Neighbours in the file need not be neighbours in time: keep the classes far apart.
        for label in np.unique(client.y):
            rows = np.flatnonzero(client.y == label)
            place[rows] = label * float(n + gap + 1) + np.arange(len(rows))
    return place, gap + 0.5


def fenced(client: ClientData, card: Card) -> tuple[FloatArray, float]:
    """Return windows' places and the distance below which they overlap; without seconds, 0."""
    when, width = window_places(client, card)
    return when, width if time_known(client, card) == "seconds from t" else 0.0


def clear_of(times: FloatArray, others: FloatArray, width: float) -> BoolArray:
    """Return bool [times]: which lie `width` or more from every one of `others`."""
    if len(others) == 0:
        return np.ones(len(times), np.bool_)
    fence = np.concatenate(([-np.inf], np.sort(others), [np.inf]))
    after = np.searchsorted(fence, times)
    return np.minimum(fence[after] - times, times - fence[after - 1]) >= width
