"""Named parts of a vector of slots, and which of their entries a round asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Asked = Mapping[str, NDArray[np.bool_]]
#: By name, in their order: a part's shape, and the mask of a download that says which entries of
#: its first axis travel; "": a count, of which all do, in each round.
Parts = Mapping[str, tuple[tuple[int, ...], str]]


def counts(parts: Parts) -> list[str]:
    """Return the names of counts."""
    return [name for name, (_, mask) in parts.items() if not mask]


def length(parts: Parts, asked: Asked) -> int:
    """Return how many numbers a vector has."""
    return sum((int(asked[m].sum()) if m else s[0]) * prod(s[1:]) for s, m in parts.values())


def joined(values: Mapping[str, Array], parts: Parts, asked: Asked) -> NDArray[np.float32]:
    """Return the parts' entries that are asked for as one vector."""
    wanted = [values[n][asked[m]] if m else values[n] for n, (_, m) in parts.items()]
    return np.concatenate([one.ravel() for one in wanted]).astype(np.float32)


def split(numbers: Array, parts: Parts, asked: Asked) -> dict[str, NDArray[np.float64]]:
    """Return the parts of a vector, with zeros for entries that were not asked for."""
    found, at = dict[str, NDArray[np.float64]](), 0
    for name, (shape, mask) in parts.items():
        found[name], which = np.zeros(shape), asked[mask] if mask else slice(None)
        end = at + found[name][which].size
        found[name][which] = numbers[at:end].reshape(-1, *shape[1:])
        at = end
    return found


def digest_of(asked: Asked) -> int:
    """Return a digest of what is asked for, of 63 bits."""
    every = b"".join(np.packbits(asked[name]).tobytes() for name in sorted(asked))
    return int.from_bytes(hashlib.sha256(every).digest()[:8], "little") >> 1
