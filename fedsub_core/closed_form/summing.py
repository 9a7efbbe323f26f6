"""What a person adds to secure sums, number by number, and what the sums say.

Three kinds: which classes a person has, its statistics, and its equations. Statistics are the whole
numbers that a server makes of an upload by itself, and stay whole: levels of sums are powers of two
(:class:`fedsub_core.secure.quantise.Levels`), so sums under masks are the bits of plain ones as
long as 31 bits hold them. That is up to 65,535 samples, counted as many as the person that has
most for each person; of more, all numbers are halved so often that they fit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import TEMPERATURES, packed
from fedsub_core.closed_form.possible import positive, sound
from fedsub_core.closed_form.sending import Rounded, unflat
from fedsub_core.closed_form.sums import UNIT, Statistics, triangle
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels, Total

#: What a round adds up; 0: nothing.
CLASSES, STATISTICS, EQUATIONS = 1, 2, 3
#: Greatest number of statistics for each sample: a product of levels, and as much again, for
#: rounding to 16 bits moves some beyond.
RANGE = 2.0 * UNIT**2
#: By how much a temperature's loss counts as worse than the best one's at most, nats a sample.
MOST_LOSS = 3.0


def range_of(kind: int, classes: int) -> float:
    """Return the greatest size of a number for each sample that a person weighs.

    What candidates say of a class is 1 or -1 where they are right, so their squares over classes
    are about `classes`; four times that is allowed, or half as much again as is needed for losses.
    """
    if kind == EQUATIONS:
        return float(max(4 * classes, MOST_LOSS))
    return RANGE if kind == STATISTICS else 1.0


def numbers(kind: int, features: int, classes: int, equations: int) -> int:
    """Return how many numbers somebody adds to a sum of a kind, without the two behind."""
    if kind == EQUATIONS:
        return equations
    return classes if kind == CLASSES else packed(features) + classes * (features + 1)


def of_classes(held: NDArray[np.bool_], levels: Levels) -> Words:
    """Return the vector of which classes a person has, bool [classes]; each person counts once."""
    levels = replace(levels, range=range_of(CLASSES, len(held)))
    return levels.vector(held.astype(np.float64), 1)


def of_statistics(sums: Rounded, samples: int, levels: Levels) -> Words:
    """Return the vector of statistics of a person who has so many samples.

    Of who has more than may count all numbers are made less by as much.
    """
    counts_as = min(samples, levels.weight)
    whole = sums.counted(samples, counts_as)
    a_sample = np.concatenate([whole.gram, whole.cross.ravel()]) / counts_as
    return replace(levels, range=RANGE).vector(a_sample, counts_as)


def of_equations(
    row: NDArray[np.floating], candidates: int, classes: int, samples: int, levels: Levels
) -> Words:
    """Return the vector of equations in a row, a sample's worth.

    Those of candidates that say huge numbers are shortened as a whole; losses are those above the
    least, up to ``MOST_LOSS``.
    """
    own, most = row.astype(np.float64), range_of(EQUATIONS, classes)
    losses = len(own) - len(TEMPERATURES)
    own[losses:] = np.minimum(own[losses:] - own[losses:].min(), MOST_LOSS)
    _, _, diagonal = triangle(candidates)
    largest = own[diagonal].max()
    shortened = bool(largest > most)
    if shortened:
        own[:losses] *= most / largest
    vector = replace(levels, range=most).vector(own, samples)
    vector[-1] |= shortened
    return vector


def classes_in(total: Total, people: int) -> NDArray[np.int64]:
    """Return the number of people who have each class, int64 [classes], of so many in a sum.

    Raises ValueError if a class has more people, or less than none.
    """
    found: NDArray[np.int64] = np.rint(total.sum).astype(np.int64)
    if found.min() < 0 or found.max() > people:
        got = f"{found.min()} to {found.max()} people with a class"
        raise ValueError(f"{got}, expected 0 to {people}")
    return found


def statistics_in(total: Total, features: int, classes: int, people: int) -> Statistics:
    """Return the statistics that a sum over so many people says.

    Raises ValueError if no samples can have led to them, as where somebody sent another vector.
    """
    whole = np.rint(total.sum).astype(np.int64)
    gram, cross = np.split(whole, [packed(features)])
    found = Statistics(gram, cross.reshape(classes, features + 1))
    counts = found.cross[:, 0]
    if (counts < 0).any() or counts.sum() > UNIT * (total.weight + classes):
        got = f"{counts.sum() / UNIT:g} samples, {counts.min() / UNIT:g} of a class at least"
        raise ValueError(f"{got}; expected {total.weight} at most, and none below 0")
    _, _, diagonal = triangle(features + 1)
    if (found.gram[diagonal] < 0).any():
        raise ValueError(f"a square of {found.gram[diagonal].min()}, expected 0 or more")
    if not sound(found, people):
        raise ValueError("heads with a squared error below 0, expected sums over samples")
    return found


def equations_in(
    total: Total, candidates: int, classes: int, rounded: float
) -> NDArray[np.float64]:
    """Return equations in a row, a sample's worth.

    Parameters
    ----------
    rounded : by how much rounding moved a number of the sum at most.

    Raises ValueError if no candidates can have led to them.
    """
    mean: NDArray[np.float64] = total.sum / max(total.weight, 1)
    _, _, diagonal = triangle(candidates)
    losses = len(mean) - len(TEMPERATURES)
    least = min(mean[diagonal].min(), mean[losses:].min())
    if least < 0:
        raise ValueError(f"a square or loss of {least:g}, expected 0 or more")
    said = unflat(mean, candidates, 1.0)
    # Sums of squares and products of what is said, and of what is right: 1 or -1 for each class.
    both = np.block([[said.gram, said.target[:, None]], [said.target, np.array([[classes]])]])
    # Rounding moves an eigenvalue by no more than all numbers of a row; float32 is as coarse.
    room = (candidates + 1) * rounded / max(total.weight, 1) + 1e-6 * np.diagonal(both).max()
    if not positive(both + room * np.eye(len(both))):
        raise ValueError("squares below 0 in some direction, expected sums of products")
    return mean
