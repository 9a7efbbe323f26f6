"""What no samples can have led to: sums and equations that are refused, with a name for why.

Rounding to 16 bits moves every number by up to half of what it was halved to: each check allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.sending import Rounded, unflat
from fedsub_core.closed_form.sums import UNIT
from fedsub_core.errors import MessageRefused
from fedsub_core.methods.fedsub_ridge import CROSS, EQUATIONS, GRAM, SHIFTS
from fedsub_core.wire.bundles import Bundle
from strategies.fedsub_ridge.people import came

Refuse = Callable[[str, object, object], MessageRefused]

#: How often a sum may be halved: of more samples than 2^32 nobody has sums.
MOST_SHIFTS = 31
#: What float32 may lose of sums that were float64.
_CLOSE = 1e-3


def check_sums(upload: Bundle, refuse: Refuse) -> None:
    """Demand sums that some samples, as many as the upload says, could have."""
    there = [name for name in (GRAM, CROSS, SHIFTS) if name in upload.tensors]
    if len(there) < 3:
        raise refuse("tensors of sums", ", ".join(there), f"{GRAM}, {CROSS}, {SHIFTS}, or none")
    shifts = upload.floats(SHIFTS)
    if (shifts % 1 != 0).any() or not ((shifts >= 0) & (shifts <= MOST_SHIFTS)).all():
        raise refuse(SHIFTS, shifts.tolist(), f"whole numbers from 0 to {MOST_SHIFTS}")
    _check(came(upload), upload.examples, refuse)


def _check(sums: Rounded, samples: int, refuse: Refuse) -> None:
    gram_off, cross_off = (float(2**shift) for shift in sums.shifts)
    whole = sums.statistics()
    gram, cross = whole.gram.astype(np.float64), whole.cross.astype(np.float64)
    counts = cross[:, :1]
    total = float(counts.sum()) / UNIT
    if (counts < 0).any() or abs(total - samples) > len(counts) * cross_off / UNIT / 2:
        raise refuse("samples of all classes", f"{total:g}", f"{samples}, its examples")
    if (np.abs(cross) > counts + cross_off).any():
        got = f"a sum of {np.abs(cross).max():g} levels"
        raise refuse(CROSS, got, f"at most {UNIT} for each sample of the class")
    rows, columns, diagonal = _places(cross.shape[1])
    own = gram[diagonal]
    if (own < -gram_off).any() or (own > samples * UNIT**2 + gram_off).any():
        got = f"squares that sum to {own.min():g} up to {own.max():g}"
        raise refuse(GRAM, got, f"0 to {samples * UNIT**2:g}, its samples' at most")
    lengths = np.sqrt(np.maximum(own, 0) + gram_off)
    if (np.abs(gram) > lengths[rows] * lengths[columns] + gram_off).any():
        raise refuse(GRAM, "a product larger than its squares allow", "sums of products")
    by_class, of_all = UNIT * cross.sum(0), gram[columns == 0]
    if (np.abs(by_class - of_all) > gram_off + UNIT * len(cross) * cross_off).any():
        got = f"{np.abs(by_class - of_all).max():g} levels apart"
        raise refuse(f"sums of classes ({CROSS}) and of all ({GRAM})", got, "the same")


def check_equations(upload: Bundle, candidates: int, classes: int, refuse: Refuse) -> None:
    """Demand equations that candidates could lead to on as many samples."""
    said = unflat(upload.floats(EQUATIONS), candidates, upload.examples)
    own = np.diagonal(said.gram)
    if (own < 0).any():
        raise refuse(EQUATIONS, f"a square of {own.min():g}", "at least 0")
    lengths = np.sqrt(own) * (1 + _CLOSE)
    if (np.abs(said.gram) > lengths[:, None] * lengths).any():
        raise refuse(EQUATIONS, "a product larger than its squares allow", "sums of products")
    # What is right is 1 or -1 for each sample and class.
    if (np.abs(said.target) > lengths * np.sqrt(upload.examples * classes)).any():
        got = "candidates' products with what is right, larger than squares allow"
        raise refuse(EQUATIONS, got, "sums of products")
    if (said.losses < 0).any():
        raise refuse(EQUATIONS, f"a loss of {said.losses.min():g} nats", "at least 0")


@lru_cache(maxsize=2)
def _places(width: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return row and column of each number of a lower triangle, and where its diagonal stands."""
    rows, columns = np.tril_indices(width)
    return rows, columns, np.flatnonzero(rows == columns)
