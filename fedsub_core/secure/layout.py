"""Named parts of a vector of slots, and which of their entries a round asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Bools = NDArray[np.bool_]
#: By name, in their order: a part's shape, and the mask of a download that says which entries of
#: its first axis are asked for; "": a count, of which all are, in each round.
Parts = Mapping[str, tuple[tuple[int, ...], str]]


def counts(parts: Parts) -> list[str]:
    """Return the names of the parts that are counts."""
    return [name for name, (_, mask) in parts.items() if not mask]


def asked_for(parts: Parts, asked: Mapping[str, Bools]) -> Bools:
    """Return which numbers of all parts, one after another, are asked for, bool [numbers]."""
    each = [(asked[m] if m else np.ones(s[0], bool), prod(s[1:])) for s, m in parts.values()]
    return np.concatenate([entries.repeat(size) for entries, size in each])


def by_name(numbers: Array, parts: Parts) -> dict[str, Array]:
    """Return views of all parts' numbers [numbers], in their shapes."""
    ends = np.cumsum([prod(shape) for shape, _ in parts.values()])
    of = zip(parts.items(), np.split(numbers, ends[:-1]), strict=True)
    return {name: part.reshape(shape) for (name, (shape, _)), part in of}


def digest_of(which: Bools) -> int:
    """Return a digest of what is asked for, of 63 bits."""
    digest = hashlib.sha256(np.packbits(which).tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
