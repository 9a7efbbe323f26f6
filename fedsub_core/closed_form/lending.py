"""How likely a person does a class that it has no labelled sample of, by what others do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Chance that a person who does a class has labelled none of it. Of .1 to .6 the least that costs
#: at most .3 points of macro F1 where half of the people left some of their classes unlabelled.
FORGOT = 0.4
#: By so much, nats, the score falls of a class that is not answered.
CLOSED = 20.0


@dataclass(frozen=True, eq=False)
class Holders:
    """Who has labelled samples of each class.

    Parameters
    ----------
    of_class : [classes], how many people do.
    """

    of_class: Floats
    people: float

    @classmethod
    def of(cls, row: NDArray[np.floating]) -> Holders:
        """Return the counts in a row as it travels, [classes + 1]: the people stand last."""
        return cls(row[:-1].astype(np.float64), float(row[-1]))

    @property
    def sound(self) -> bool:
        """Whether people can have these classes."""
        held = self.of_class
        return bool(np.isfinite(self.people) and ((held >= 0) & (held <= self.people)).all())

    def odds(self, counts: NDArray[np.integer] | Floats, samples: float) -> Floats:
        """Return the log odds of each class that a person lacks, [classes], 0 at most.

        Bayes' rule: with p the share of people who have a class, q the class's share at these, u =
        :data:`FORGOT` and n the person's samples, the odds that it does the class are ``p (u +
        (1 - u) (1 - q)^n) / (1 - p)``. They are added to scores; above 1 the score stays as it is.

        Parameters
        ----------
        counts : [classes], everybody's samples.
        samples : the person's own.
        """
        p = self.of_class / max(self.people, 1.0)
        mean = np.where(p > 0, counts / np.maximum(p * max(counts.sum(), 1.0), 1e-9), 0.0)
        unseen = FORGOT + (1 - FORGOT) * (1 - np.minimum(mean, 1.0)) ** samples
        least = np.exp(-CLOSED)
        odds = np.maximum(p * unseen, least) / np.maximum(1 - p, least)
        found: Floats = np.log(np.clip(odds, least, 1.0))
        return found
