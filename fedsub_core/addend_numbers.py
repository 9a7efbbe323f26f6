"""The numbers of a person's addends, one after another, and those that a round asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.addends import Addend, once

Array = NDArray[np.floating]
Bools = NDArray[np.bool_]


def asked_for(adds: Sequence[Addend], asked: Mapping[str, Bools]) -> Bools:
    """Return the mask of the numbers that are asked for, of all addends in a row, bool [numbers].

    `asked` : the masks of a download, by name.
    """
    each = [
        (asked[added.mask] if added.mask else np.ones(added.shape[0], bool), prod(added.shape[1:]))
        for added in once(adds)
    ]
    return np.concatenate([entries.repeat(size) for entries, size in each])


def by_name(numbers: Array, adds: Sequence[Addend]) -> dict[str, Array]:
    """Return views of these addends' numbers [numbers] by name, in their shapes."""
    every = once(adds)
    ends = np.cumsum([prod(added.shape) for added in every])
    of = zip(every, np.split(numbers, ends[:-1]), strict=True)
    return {added.name: part.reshape(added.shape) for added, part in of}


def digest_of(which: Bools) -> int:
    """Return a digest of which numbers are asked for, of 63 bits."""
    digest = hashlib.sha256(np.packbits(which).tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
