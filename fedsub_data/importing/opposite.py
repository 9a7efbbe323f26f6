"""People whose gravity points the other way than most people's, in every class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: A mean vector of a smaller share of the mean length has no direction.
_DIRECTED = 0.7
#: How near to one line, as a cosine, people's directions must be, and for how many of them. Two or
#: three people may lie on one line by chance.
_LINE, _LINE_OF_FEW, _MOST = 0.9, 0.95, 0.9
#: In how many of the classes that must be; and how many people are few.
_CLASSES, _CLASSES_OF_FEW, _FEW = 0.5, 0.75, 3


def opposite(means: Array) -> NDArray[np.int64]:
    """Return the indices of people whose vectors are opposite to most people's.

    Only classes count in which nearly everybody's vectors lie along one line: a phone that is
    carried as one likes has no sign that others agree with.

    Parameters
    ----------
    means : [people, classes, 3], mean vectors as shares of their mean length; NaN where unknown.
    """
    signs, lines = np.zeros(means.shape[:2]), np.zeros(means.shape[1])
    for label in range(means.shape[1]):
        length = np.linalg.norm(means[:, label], axis=1)
        there = np.flatnonzero(length > _DIRECTED)  # NaN is not
        if len(there) < 2:
            lines[label] = np.nan
            continue
        unit = means[there, label] / length[there, None]
        _, axes = np.linalg.eigh(unit.T @ unit)
        along = unit @ axes[:, -1]
        line = abs(along) > (_LINE if len(means) > _FEW else _LINE_OF_FEW)
        lines[label] = line.mean() >= _MOST
        signs[there, label] = np.sign(along) * (line if lines[label] else 1)
    least = _CLASSES if len(means) > _FEW else _CLASSES_OF_FEW
    if np.isnan(lines).all() or np.nanmean(lines) < least:
        return np.zeros(0, np.int64)
    total = _with_one_sign(signs[:, np.argsort(-np.nan_to_num(lines), kind="stable")])
    few = np.flatnonzero(total < 0)
    return few if len(few) * 2 <= len(means) else np.zeros(0, np.int64)


def _with_one_sign(signs: Array) -> Array:
    """Return each person's sign [people], 0 where classes differ; most people's is 1.

    Each class's sign is arbitrary at first: classes are turned to agree with those before them.
    """
    total = np.zeros(len(signs))
    mixed = np.zeros(len(signs), np.bool_)
    for column in signs.T:
        agreed = float((total * column).sum())
        own = column * (np.sign(agreed) if agreed else 1.0)
        mixed |= (total * own) < 0
        total = np.sign(total + own)
    total[mixed] = 0
    first = total[np.flatnonzero(total)[:1]].sum()
    turn = np.sign(total.sum()) or first
    turned: Array = total * turn
    return turned
