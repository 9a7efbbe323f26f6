"""An upload as one vector of whole numbers, and the mean of all as if one person had sent it."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels, Total
from fedsub_core.wire.bundles import Bundle, Declaration, Floats, Whole, whole

#: The one tensor that travels.
VECTOR = "vector"
#: In place of a vector: what may not be added up, so its owner is silent.
NO_VECTOR: Words = np.zeros(0, np.uint32)


def length(sends: Declaration) -> int:
    """Return the length of the vector of tensors so declared."""
    return sum(prod(one.shape) for one in sends.values()) + BESIDE


def declared_of(numbers: int) -> Declaration:
    """Declare a vector of so many numbers: whole ones of 16 bits, two for each, the lower first."""
    return {VECTOR: whole((numbers, 2))}


def in_bundle(vector: Words) -> Bundle:
    """Return an upload that carries a vector; how many samples its sender has stands in that."""
    halves = np.ascontiguousarray(vector.astype("<u4", copy=False)).view("<i2")
    return Bundle(examples=1, tensors={VECTOR: Whole(halves.reshape(-1, 2))})


def vector_of(bundle: Bundle) -> Words:
    """Inverse of :func:`in_bundle`."""
    halves = np.ascontiguousarray(bundle.whole(VECTOR), "<i2")
    return halves.reshape(-1).view("<u4").astype(np.uint32, copy=False)


def of_upload(upload: Bundle, received: Bundle, sends: Declaration, levels: Levels) -> Words:
    """Return the vector of what somebody would send: how it moved from what it received.

    Raises ValueError if it received nothing that it could have moved from.
    """
    return levels.vector(change_of(upload, received, sends), upload.examples)


def change_of(upload: Bundle, received: Bundle, sends: Declaration) -> NDArray[np.float32]:
    """Return how somebody moved from what it received, float32 ``[n]``, tensor after tensor.

    Raises ValueError if it received nothing that it could have moved from.
    """
    if lacking := sends.keys() - received.tensors.keys():
        raise ValueError(f"download: got none of {sorted(lacking)}, expected all that is sent")
    moves = [(upload.floats(name) - received.floats(name)).ravel() for name in sends]
    return np.concatenate([np.zeros(0, np.float32), *moves])


def mean_upload(total: Total, received: Bundle, sends: Declaration) -> Bundle:
    """Return the upload of one person who moved as the mean of all did."""
    tensors, at = {}, 0
    for name, one in sends.items():
        move = total.mean[at : at + prod(one.shape)].reshape(one.shape)
        tensors[name] = Floats(received.floats(name) + move)
        at += move.size
    return Bundle(examples=total.weight, tensors=tensors)
