"""Sums that hide single samples: Gaussian noise on what leaves the server.

Sufficient statistics perturbed once serve every head that is solved of them (SSP: Vu and Slavkovic
2009; with a ridge that grows with the noise, AdaSSP: Wang, UAI 2018). Features lie in [-1, 1], so
how far one sample can move the sums is known without a look at data.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from fedsub_core.closed_form.grids import packed
from fedsub_core.closed_form.sums import UNIT, Statistics


def sensitivity(features: int) -> float:
    """Return how far a sample that comes or goes moves the sums at most, L2, in units.

    Each number of the triangle moves by 1 at most, and so does each of one class's sums.
    """
    return sqrt(packed(features) + features + 1)


def deviation(features: int, multiplier: float) -> float:
    """Return the noise's deviation in each number of the sums, in units."""
    return multiplier * sensitivity(features)


def draws(sums: Statistics, multiplier: float) -> tuple[tuple[int, float], ...]:
    """Return the draws of :func:`noisy`: of each how many numbers, and their deviation."""
    large = deviation(sums.features, multiplier)
    return (sums.gram.size, large * UNIT**2), (sums.cross.size, large * UNIT)


def noisy(sums: Statistics, multiplier: float, stream: np.random.Generator) -> Statistics:
    """Return sums with noise, and with a ridge that keeps them sums that could be.

    Whole numbers stay whole. The ridge is as large as the greatest eigenvalue that such noise has
    (2 deviations times the root of the width: Wigner), so that what is left when a person takes the
    own samples out is no less than the others' were.

    Parameters
    ----------
    multiplier : the noise's deviation over :func:`sensitivity`; 0: none.
    """
    if multiplier == 0:
        return sums
    width = sums.features + 1
    large = deviation(sums.features, multiplier)
    gram, cross = (
        of + np.rint(stream.normal(0, scale, of.shape)).astype(np.int64)
        for of, (_, scale) in zip((sums.gram, sums.cross), draws(sums, multiplier), strict=True)
    )
    diagonal = np.cumsum(np.arange(1, width + 1)) - 1
    gram[diagonal] += round(2 * large * sqrt(width) * UNIT**2)
    # The constant's row says how many there are: of a class no fewer than none.
    cross[:, 0] = np.maximum(cross[:, 0], 0)
    return replace(sums, gram=gram, cross=cross)
