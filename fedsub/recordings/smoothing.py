"""Smoothing over time: a forward filter of a hidden Markov model, one recording at a time.

Rabiner, A Tutorial on Hidden Markov Models (1989), equations 19 and 20, with a state for each
class. A class lasts a mean time, after which each other one is as likely. It needs nothing of what
comes later, so it also runs on a watch.
"""

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float32]
#: A probability counts as no less: one sure window must not outweigh all that follow.
_LEAST = 1e-4


class ForwardFilter:
    """The filter of one recording; it holds the probabilities after the last window.

    Parameters
    ----------
    stay_s : mean time that a class lasts, s.
    weight : of one window's evidence, the share of a window that the next does not repeat:
        what two windows share is heard once.
    """

    def __init__(self, classes: int, stay_s: float, weight: float = 1.0) -> None:
        self._stay, self._weight = stay_s, weight
        self._belief = np.full(classes, 1 / classes)
        self._at: float | None = None

    def smoothed(self, shares: Shares, begins: NDArray[np.float64]) -> Shares:
        """Return the probabilities of each class, float32 [n, classes], in the light of the past.

        Parameters
        ----------
        shares : probabilities of each window alone, [n, classes].
        begins : when each window begins, s, [n]; later than those before.
        """
        made = np.empty_like(shares)
        count = shares.shape[1]
        even = (count - 1) / count  # the share of time in which a class is another than at first
        for row, (share, at) in enumerate(zip(shares, begins, strict=True)):
            seconds = 0.0 if self._at is None else at - self._at
            leaves = even * -np.expm1(-seconds / (self._stay * even))
            prior = self._belief * (1 - leaves) + (1 - self._belief) * leaves / (count - 1)
            belief = prior * np.maximum(share.astype(np.float64), _LEAST) ** self._weight
            self._belief, self._at = belief / belief.sum(), float(at)
            made[row] = self._belief
        return made
