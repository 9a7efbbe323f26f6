"""What is believed of a person's candidates before its own samples speak.

Everybody's equations, and a default. The default is a mixture of heads on everybody's sums in which
own samples weigh much. Leave-one-out alone would seldom choose it where samples are few: a class of
which one of three samples is left out is known worse than it will be.

Of sums with noise nobody's equations are pooled. The default is then of own samples alone, and
candidates on such sums are held to saying nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import (
    ALONE,
    ON_EACH,
    OWN_WEIGHTS,
    PENALTIES,
    TEMPERATURES,
    WITH_OTHERS,
)
from fedsub_core.closed_form.stacking import Equations

Floats = NDArray[np.float64]

#: Which heads are mixed.
MIXED, OWN, EVERYBODY = "mixed", "own", "everybody"
#: The default's penalties, half each, and the weight of own samples.
PENALTIES_THERE, OWN_WEIGHT = (30.0, 300.0), 100.0
#: As how many samples the default counts: among everybody's, and before these are known.
AMONG_ALL, BEFORE = 30.0, 3.0
#: The default's temperature, and nats a sample for each half step (factor sqrt 2) from it, squared.
TEMPERATURE, PER_STEP = 4.0, 0.05
#: As how many samples in which candidates on noisy sums were right of nothing.
DOUBTED = 30.0
_TEMPERED = PER_STEP * (2 * np.log2(np.array(TEMPERATURES) / TEMPERATURE)) ** 2


@dataclass(frozen=True, eq=False)
class Prior:
    """Everybody's equations and the default.

    Parameters
    ----------
    prior : as how many samples both count together.
    pooled : everybody's equations; None: the default stands alone, as :data:`BEFORE` samples.
    samples : of how many samples the sums are that everybody's equations are of. The equations
        themselves come as one sample's worth.
    noisy : whether noise is on the sums.
    """

    prior: float = 0.0
    pooled: Equations | None = None
    samples: float = 0.0
    noisy: bool = False

    def of(self, gram: Floats, heads: str) -> Equations:
        """Return the equations that are added to a person's own.

        Parameters
        ----------
        gram : [K, K], of what its candidates say, a sample's worth. The default wants them to say
            what its mixture says: no label is in it.
        heads : which of them may be mixed.
        """
        one = Equations(1.0, gram, gram @ self.default(len(gram), heads), _TEMPERED)
        if self.pooled is None:
            before = BEFORE * one
            doubted = np.arange(len(gram)) >= len(PENALTIES) if self.noisy and heads == MIXED else 0
            return replace(before, gram=before.gram + np.diag(DOUBTED * doubted * gram.diagonal()))
        a_sample = (1 / self.pooled.samples) * self.pooled
        share = AMONG_ALL / (AMONG_ALL + self.samples)
        return self.prior * ((1 - share) * a_sample + share * one)

    def default(self, candidates: int, heads: str) -> Floats:
        """Return the default's weight of each candidate, [K]; they add up to 1."""
        alone, weights = ((OWN, MIXED) if self.noisy else (OWN,)), np.zeros(candidates)
        for penalty in PENALTIES_THERE:
            at = PENALTIES.index(penalty)
            if heads not in alone and candidates > ALONE:
                own = 0 if heads == EVERYBODY else OWN_WEIGHTS.index(OWN_WEIGHT)
                at = ALONE + WITH_OTHERS.index(penalty) * len(OWN_WEIGHTS) + own
            weights[at] = 1 / len(PENALTIES_THERE)
        return weights


def admitted(candidates: int, heads: str) -> NDArray[np.intp]:
    """Return the candidates that may be mixed, by number."""
    if heads == OWN:
        return np.arange(min(ALONE, candidates))
    if heads == EVERYBODY and candidates > ALONE:
        return np.arange(ALONE, ALONE + ON_EACH, len(OWN_WEIGHTS))
    return np.arange(candidates)
