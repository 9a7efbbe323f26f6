"""Prediction of prototypes that clients lack, by collaborative filtering over clients.

Source: first version of FedSub (Campana and Delmastro), Algorithm 3, eq. 1 and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Similarities are compared to this many decimals, so that clients that are equally similar tie
# whatever the order in which the processor summed them.
DECIMALS = 12


def impute(
    prototypes: NDArray[np.floating[Any]], has: Bools, neighbours: int
) -> tuple[Floats, Bools]:
    """Predict missing prototypes from the most similar clients that have the class (eq. 2).

    Only prototypes that clients sent are used; predicted ones never predict others. Of the
    `neighbours` most similar clients, those with a similarity of zero or less are dropped
    (a negative weight in eq. 2 would be meaningless); where none is left, the class stays
    missing. Equally similar clients: the smaller index first.

    Parameters
    ----------
    prototypes : float [n, classes, d]
        Read only where `has` is true.
    has : bool [n, classes]
        Which prototypes exist.
    neighbours : int
        n of Algorithm 3, >= 1.

    Returns
    -------
    completed : float64 [n, classes, d]
        The given prototypes, the predicted ones, and zeros where the class stays missing.
    imputed : bool [n, classes]
        Which prototypes were predicted.
    """
    completed = np.where(has[:, :, None], prototypes, 0.0).astype(np.float64)
    imputed = np.zeros_like(has)
    similarity = client_similarity(completed, has)
    for y in range(has.shape[1]):
        lack, have = np.flatnonzero(~has[:, y]), np.flatnonzero(has[:, y])
        weights = np.maximum(similarity[np.ix_(lack, have)], 0.0)
        nearest = np.argsort(-weights, axis=1, kind="stable")[:, :neighbours]
        weights = np.take_along_axis(weights, nearest, axis=1)
        total = weights.sum(1)
        similar = total > 0
        known = completed[have, y]
        mean = np.einsum("uv,uvd->ud", weights[similar], known[nearest[similar]])
        completed[lack[similar], y] = mean / total[similar, None]
        imputed[lack[similar], y] = True
    return completed, imputed


def client_similarity(prototypes: Floats, has: Bools) -> Floats:
    """Return the mean cosine over shared classes of every pair of clients, [n, n] (eq. 1).

    Parameters
    ----------
    prototypes : float64 [n, classes, d]
        Zero where `has` is false. A prototype of length 0 has cosine 0 with everything.
    has : bool [n, classes]

    Notes
    -----
    Clients without a shared class have similarity 0.
    """
    # Scaling by the greatest entry first keeps the squares of huge or tiny prototypes finite.
    greatest = np.abs(prototypes).max(axis=2, keepdims=True, initial=0.0)
    scaled = prototypes / np.where(greatest > 0, greatest, 1.0)
    length = np.linalg.norm(scaled, axis=2, keepdims=True)
    unit = (scaled / np.where(length > 0, length, 1.0)).reshape(len(has), -1)
    shared = has.astype(np.float64) @ has.T.astype(np.float64)
    return np.round((unit @ unit.T) / np.maximum(shared, 1.0), DECIMALS)
