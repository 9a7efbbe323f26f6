"""What no samples can have led to: sums and equations that are refused, with a name for why.

Rounding to 16 bits moves every number by up to half of what it was halved to: each check allows it.
So nothing may be halved more often than its size demands, or the sender would choose the room.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedsub_core.closed_form.possible import could_be, positive
from fedsub_core.closed_form.sending import Rounded, unflat
from fedsub_core.closed_form.sums import GREATEST, UNIT, triangle
from fedsub_core.errors import MessageRefused
from fedsub_core.method_parts.ridge_tensors import CROSS, EQUATIONS, GRAM, SHIFTS
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedsub_ridge.people import came

Refuse = Callable[[str, object, object], MessageRefused]

#: How often a sum may be halved: nobody has samples that need it more often.
MOST_SHIFTS = 16
#: What float32 may lose of sums that were float64.
_CLOSE = 1e-3


def check_sums(upload: Bundle, refuse: Refuse, fading: bool = False) -> None:
    """Demand of sums what those of samples hold, as many as the upload says.

    `fading` says whether samples count in part: class sums are then rounded.
    """
    there = [name for name in (GRAM, CROSS, SHIFTS) if name in upload.tensors]
    if len(there) < 3:
        raise refuse("tensors of sums", ", ".join(there), f"{GRAM}, {CROSS}, {SHIFTS}, or none")
    shifts = upload.floats(SHIFTS)
    if (shifts % 1 != 0).any() or not ((shifts >= 0) & (shifts <= MOST_SHIFTS)).all():
        raise refuse(SHIFTS, shifts.tolist(), f"whole numbers from 0 to {MOST_SHIFTS}")
    check_rounded(came(upload), upload.examples, refuse, fading)


def check_rounded(sums: Rounded, samples: int, refuse: Refuse, fading: bool = False) -> None:
    """Demand of sums in 16 bits a number what those of so many samples hold."""
    off = float(2 ** sums.shifts[0])
    cross = sums.class_sums.astype(np.float64)
    counts = cross[:, :1]
    total = float(counts.sum()) / UNIT
    if (counts < 0).any() or abs(total - samples) > len(counts) * off / UNIT / 2:
        raise refuse("samples of all classes", f"{total:g}", f"{samples}, its examples")
    if (np.abs(cross) > counts + off).any():
        got = f"a sum of {np.abs(cross).max():g} levels"
        raise refuse(CROSS, got, f"at most {UNIT} for each sample of the class")
    rows, columns, diagonal = triangle(cross.shape[1])
    if sums.gram[diagonal[:-1] + 1].any() or sums.gram[0]:  # each row's first
        raise refuse(GRAM, "products with the constant", f"none: {CROSS} says them")
    # Products are about means that follow from rounded sums.
    room = 4.0 ** sums.shifts[1:] + (2 * UNIT * len(cross) * off if off > 1 else 0)
    halved = 2.0 ** sums.shifts[1:]
    squares = sums.gram[diagonal] * halved**2
    most, whole = samples * UNIT**2, sums.statistics().gram[diagonal]
    if (squares < -room).any() or (whole > most + room).any():
        got = f"squares of {squares.min():g} to {whole.max():g}"
        raise refuse(GRAM, got, f"0 to {most:g}, its samples' at most")
    lengths = np.sqrt(np.maximum(squares, 0) + room) / halved
    if (np.abs(sums.gram.astype(np.float64)) > lengths[rows] * lengths[columns]).any():
        raise refuse(GRAM, "a product larger than its squares allow", "sums of products")
    _check_halvings(sums, refuse)
    if not could_be(sums, fading):
        got = "products that no samples have whose classes have these sums"
        raise refuse(GRAM, got, "those of samples: no square below 0 in any direction")


def _check_halvings(sums: Rounded, refuse: Refuse) -> None:
    """Demand halvings that numbers of 16 bits needed: one less would not have fitted."""
    if sums.shifts[0] and (most := np.abs(sums.cross.astype(int)).max()) < GREATEST // 2:
        got = f"{sums.shifts[0]} halvings of {CROSS}, at most {most} after them"
        raise refuse(SHIFTS, got, f"none that {GREATEST // 2} or more is not left after")
    _, _, diagonal = triangle(sums.cross.shape[1])
    needless = (sums.shifts[1:] > 0) & (sums.gram[diagonal] < GREATEST // 4)
    if needless.any():
        feature = int(needless.argmax())
        got = f"{sums.shifts[1:][feature]} halvings, a square of {sums.gram[diagonal][feature]}"
        raise refuse(f"{SHIFTS} of feature {feature}", got, f"{GREATEST // 4} or more after any")


def check_equations(upload: Bundle, candidates: int, classes: int, refuse: Refuse) -> None:
    """Demand equations that candidates could lead to, a sample's worth."""
    said = unflat(upload.floats(EQUATIONS), candidates, 1.0)
    own = np.diagonal(said.gram)
    if (own < 0).any():
        raise refuse(EQUATIONS, f"a square of {own.min():g}", "at least 0")
    lengths = np.sqrt(own) * (1 + _CLOSE)
    if (np.abs(said.gram) > lengths[:, None] * lengths).any():
        raise refuse(EQUATIONS, "a product larger than its squares allow", "sums of products")
    # What is right is 1 or -1 for each sample and class.
    if (np.abs(said.target) > lengths * np.sqrt(classes)).any():
        got = "candidates' products with what is right, larger than squares allow"
        raise refuse(EQUATIONS, got, "sums of products")
    # One below the other, sums of squares and products of what is said and what is right.
    both = np.block([[said.gram, said.target[:, None]], [said.target, np.array([[classes]])]])
    room = _CLOSE * np.diagonal(both)
    if not positive(both + np.diag(room + 1e-6 * room.max())):
        got = "products that no candidates have, with squares below 0 in some direction"
        raise refuse(EQUATIONS, got, "sums of products")
    if (said.losses < 0).any():
        raise refuse(EQUATIONS, f"a loss of {said.losses.min():g} nats", "at least 0")
