"""A set of pictures as a federation whose clients are its parts.

Nobody knows who took or drew them, so the federation that is prepared has no people. Its clients
are the official parts (``train``, ``test``) or the domains. ``fedsub data partition`` deals them
to people; it pools all parts but in ``domains``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import IMAGE
from fedsub_data.preparing.preparation import Counts, Prepared, refused

Pictures = NDArray[np.uint8]

CHANNELS = {1: ("grey",), 3: ("red", "green", "blue")}


@dataclass(frozen=True, eq=False)
class Part:
    """Pictures of one part of a set.

    Parameters
    ----------
    name : the client's id.
    where : the file with the labels, for messages.
    x : uint8 [n, channels, height, width], 0 to 255.
    y : int64 [n], labels from 0.
    """

    name: str
    where: str
    x: Pictures
    y: NDArray[np.int64]


def checked(part: Part, classes: int) -> Part:
    """Return `part`, or raise DataError at a wrong label, or where pictures lack labels."""
    if len(part.x) != len(part.y):
        raise refused(part.where, f"{len(part.y)} labels", f"{len(part.x)}, one a picture")
    wrong = np.flatnonzero((part.y < 0) | (part.y >= classes))
    if len(wrong):
        got = f"label {part.y[wrong[0]]} of picture {wrong[0]}"
        raise refused(part.where, got, f"0 to {classes - 1}")
    return part


def federation_of(
    name: str, task: str, classes: Sequence[str], parts: Sequence[Part], counts: Counts
) -> Prepared:
    """Return the federation whose clients are `parts`.

    Raises DataError; as :func:`checked`, and at pictures of another size than the first part's.
    """
    size = parts[0].x.shape[1:]
    clients = {}
    for part in parts:
        if part.x.shape[1:] != size:
            got = f"pictures of {part.x.shape[1:]}"
            raise refused(part.where, got, f"{size} as in {parts[0].where}")
        checked(part, len(classes))
        clients[part.name] = ClientData(part.name, part.x, part.y)
        counts.add(f"pictures: {part.name}", len(part.y))
    card = Card(name, task, tuple(classes), CHANNELS[size[0]], "0 to 255", sample=IMAGE)
    return Prepared(Federation(card, clients), counts)
