"""How long a class lasts in a person's training samples."""

from __future__ import annotations

import numpy as np

from fedsub_client.split_client import SplitClient
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.windows import time_known, window_seconds


def mean_stay(held: SplitClient, card: Card) -> float | None:
    """Return the mean time that a class lasts, s; None of targets, or where samples show none.

    Counted are training samples whose windows touch the next one in time: the time from one to the
    next, over how often the class then is another. A class that never changes lasts all of it.
    """
    if card.target is not None:
        return None
    data = ClientData(held.client, held.x, np.empty(0, np.int64), held.t)
    length = window_seconds(data, card)
    if held.t is None or length is None or time_known(data, card) != "seconds from t":
        return None
    order = np.argsort(held.t[held.train], kind="stable")
    apart = np.diff(held.t[held.train][order])
    touch = (apart > 0) & (apart <= 1.01 * length)
    changes = int(np.count_nonzero(np.diff(held.train_y[order])[touch]))
    total = float(apart[touch].sum())
    return total / max(changes, 1) if total else None
