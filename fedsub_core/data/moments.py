"""Windows of one moment, which several devices recorded: they stay on one side of a split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.windows import time_known


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
