"""Candidates whose columns of some classes come from elsewhere than a person's own samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import Candidates
from fedsub_core.closed_form.grids import OWN_WEIGHTS, WITH_OTHERS
from fedsub_core.closed_form.scale import Floats, Samples

#: Of own samples in lent columns.
OWN_WEIGHT = 20.0


class ByClass:
    """Candidates of which each class's column is solved on the sums of that class's group."""

    def __init__(self, columns: Sequence[Candidates]) -> None:
        self.columns = columns
        self.said = np.stack([one.said[:, :, y] for y, one in enumerate(columns)], 2)
        self.penalties = columns[0].penalties

    def head(self, mixed: Floats, samples: Samples) -> tuple[Floats, Floats]:
        """Return the mixed head: weight [classes, D], bias [classes]."""
        heads = {one: one.head(mixed, samples) for one in set(self.columns)}
        weights, biases = zip(*(heads[one] for one in self.columns), strict=True)
        return (
            np.stack([weight[y] for y, weight in enumerate(weights)]),
            np.stack([bias[y] for y, bias in enumerate(biases)]),
        )


class Lent:
    """Candidates whose columns of classes that the person has no sample of are everybody's.

    Of such a class own samples can say but that it is not right: in its column they weigh
    :data:`OWN_WEIGHT` times, which tells it from the classes that they are of.
    """

    def __init__(
        self, of: Candidates | ByClass, everybody: Candidates | ByClass, lacking: NDArray[np.intp]
    ) -> None:
        self.of, self.everybody, self.lacking = of, everybody, lacking
        self.penalties = of.penalties
        said = of.said.copy()
        said[:, :, lacking] = everybody.said[self._plain(of.penalties)][:, :, lacking]
        self.said = said

    def head(self, mixed: Floats, samples: Samples) -> tuple[Floats, Floats]:
        """Return the mixed head: weight [classes, D], bias [classes]."""
        weight, bias = self.of.head(mixed, samples)
        lent = np.zeros(len(self.everybody.said))
        np.add.at(lent, self._plain(self.penalties), mixed)
        theirs, their_bias = self.everybody.head(lent, samples)
        weight[self.lacking], bias[self.lacking] = theirs[self.lacking], their_bias[self.lacking]
        return weight, bias

    @staticmethod
    def _plain(penalties: Floats) -> NDArray[np.intp]:
        """Return everybody's candidates of these penalties or the next below."""
        found = (np.searchsorted(WITH_OTHERS, penalties, "right") - 1) * len(OWN_WEIGHTS)
        return found + OWN_WEIGHTS.index(OWN_WEIGHT)
