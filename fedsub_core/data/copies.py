"""Samples that are the same: a model that trained on one must not be tested on another."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.samples import Samples


def first_copies(x: Samples) -> NDArray[np.int64] | None:
    """Return of each sample of ``x [n, *features]`` the first that has the same bytes, int64 [n].

    A sample that stands alone is its own first. None where all do.
    """
    seen: dict[bytes, int] = {}
    # Digests instead of sorted rows: features may lie in a file that is larger than memory.
    keys = (blake2b(row.tobytes(), digest_size=16).digest() for row in x)
    first = np.array([seen.setdefault(key, i) for i, key in enumerate(keys)], np.int64)
    return first if len(seen) < len(x) else None


def copies_within(
    first: NDArray[np.int64] | None, rows: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return :func:`first_copies` of the samples at `rows`; `first` is that of all samples."""
    if first is None:
        return None
    _, earliest, group = np.unique(first[rows], return_index=True, return_inverse=True)
    return earliest[group].astype(np.int64) if len(earliest) < len(rows) else None


def same_as(first: NDArray[np.int64] | None, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of `chosen` samples and their copies, bool [n]; `first` as above."""
    return chosen if first is None else np.isin(first, first[chosen])


def different(first: NDArray[np.int64] | None, n: int) -> NDArray[np.bool_]:
    """Return the mask of samples that are no copies of earlier ones, bool [n]; `first` as above."""
    return np.ones(n, np.bool_) if first is None else first == np.arange(n)
