"""What a fit that had not seen some samples would say of them, without that fit.

Leave-one-out of a linear smoother is Allen's PRESS (1974). Windows of a person's signal stand in
order of time, overlap their neighbours and are alike within a bout: the one left out has been seen
all but for its noise, and a head that learns by heart looks best. So a stretch of time is left out
at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import STRETCHES

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Which of a person's samples are left out together.

    Parameters
    ----------
    samples : int64 [blocks, m], whose samples each block holds; -1 pads.
    """

    samples: NDArray[np.int64]

    @classmethod
    def of(cls, y: NDArray[np.int64], stretches: int = STRETCHES) -> Blocks:
        """Return each class's samples, in their order, cut into `stretches` or singles."""
        of_class = [np.flatnonzero(y == label) for label in np.unique(y)]
        parts = [b for one in of_class for b in np.array_split(one, min(stretches, len(one)))]
        samples = np.full((len(parts), max(map(len, parts), default=1)), -1)
        for row, part in zip(samples, parts, strict=True):
            row[: len(part)] = part
        return cls(samples)

    @cached_property
    def _held(self) -> NDArray[np.bool_]:
        return self.samples >= 0

    def residuals(
        self, basis: Floats, inverse: Floats, pull: Floats, outside: Floats | None = None
    ) -> Floats:
        """Return targets minus what each of K fits without a sample's block says, [K, n, classes].

        Parameters
        ----------
        basis, inverse : [n, m] and [K, m], of ``C^-1 = basis diag(inverse) basis^T + outside (I -
            basis basis^T)``, where ``C`` is the covariance of targets that a fit amounts to.
        pull : ``C^-1`` times the targets' distance from what is said without own samples,
            [K, n, classes].
        outside : [K], see `basis`; of no matter where that is whole.
        """
        if outside is None or basis.shape[0] == basis.shape[1]:
            outside = np.zeros(len(inverse))
        within = inverse - outside[:, None]
        if self.samples.shape[1] == 1:
            return pull / (outside[:, None] + within @ (basis**2).T)[:, :, None]
        held = self._held[:, :, None]
        rows = np.where(held, basis[self.samples], 0.0)
        blocks = (rows * within[:, None, None]) @ rows.transpose(0, 2, 1)
        one = np.where(held, outside[:, None, None, None], 1.0)
        blocks += np.eye(blocks.shape[-1]) * one
        left = np.linalg.solve(blocks, np.where(held, pull[:, self.samples], 0.0))
        residual = np.empty_like(pull)
        residual[:, self.samples[self._held]] = left[:, self._held]
        return residual
