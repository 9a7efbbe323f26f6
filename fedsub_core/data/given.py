"""Parts that a client's file says itself (its ``parts``), for ``split = given``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import PARTS, ClientData
from fedsub_core.data.copies import same_as
from fedsub_core.data.windows import clear_of, fenced

BoolArray = NDArray[np.bool_]


def given_parts(client: ClientData, card: Card) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return the masks of the training, validation and test part, bool [n], of a client's file.

    A sample that overlaps or repeats one of a later part is in neither: parts share no signal.
    """
    assert client.parts is not None
    when, width = fenced(client, card)
    test, held, train = (client.parts == PARTS.index(name) for name in _LATEST_FIRST)
    held = held & _apart(client, when, width, test)
    train = train & _apart(client, when, width, test | held)
    return train, held, test


_LATEST_FIRST = ("test", "validation", "training")


def _apart(
    client: ClientData, when: NDArray[np.float64], width: float, other: BoolArray
) -> BoolArray:
    return ~same_as(client.first_copies, other) & clear_of(when, when[other], width)
