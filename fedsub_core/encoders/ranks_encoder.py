"""``ranks:N``: a feature vector's own entries, and N random units of the ranks of 1 to 3 of them.

A rank is where an entry stands among a person's training samples. People who differ in scale have
the same ranks, and an entry's skew does not matter: a forest sees samples so, too. Few samples tell
little of a distribution, so values of the normal stand beside them; half of the units see ranks
among these alone, which are everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsub_core.encoders.encoder import NORMAL, UNIT
from fedsub_core.encoders.names import RANKS
from fedsub_core.encoders.relu_encoder import ReluEncoder

#: Values that an entry is compared with: its places.
PLACES = 32
#: The normal's values in steps, as many as places, at equal shares.
NORMAL_PLACES = np.array(
    [round(UNIT * NORMAL.inv_cdf((i + 0.5) / PLACES)) for i in range(PLACES)], np.int16
)
#: Steps of half a place: uniform ranks have about the deviation of a standardised entry.
HALF_PLACE = 14


@dataclass(frozen=True)
class RanksEncoder(ReluEncoder):
    """Features of vectors ``[inputs]``: inputs, then units of everybody's and own ranks in turn.

    Parameters
    ----------
    places : of a person, ascending steps ``[PLACES, inputs]``; None: everybody's.
    """

    personal: ClassVar[bool] = True
    places: NDArray[np.int16] | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """How a run's configuration names it."""
        return f"{RANKS}:{self.size}"

    def of_person(self, steps: NDArray[np.int16]) -> Self:
        """Return the encoder of a person with these quantised training samples."""
        return replace(self, places=places(steps))

    def inputs_of_units(self, steps: NDArray[np.int32]) -> Sequence[NDArray[np.int32]]:
        """Return everybody's ranks and the person's."""
        everybody = ranks(steps, self.everybodys)
        return [everybody, everybody if self.places is None else ranks(steps, self.places)]

    @property
    def everybodys(self) -> NDArray[np.int16]:
        """Places of somebody without samples."""
        return places(np.empty((0, *self.input_shape), np.int16))


def places(steps: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return the places of samples ``[n, inputs]``, at equal shares of theirs and the normal's."""
    normal = np.broadcast_to(NORMAL_PLACES[:, None], (PLACES, steps.shape[1]))
    every = np.sort(np.concatenate([normal, steps]), axis=0)
    return np.ascontiguousarray(every[(2 * np.arange(PLACES) + 1) * len(every) // (2 * PLACES)])


def ranks(steps: NDArray[np.int32], places: NDArray[np.int16]) -> NDArray[np.int32]:
    """Return ranks of ``steps [n, inputs]``, from -448 to 448; an equal place counts half."""
    found = np.full(steps.shape, -PLACES, np.int32)
    for place in places:
        found += steps > place
        found += steps >= place
    return HALF_PLACE * found
