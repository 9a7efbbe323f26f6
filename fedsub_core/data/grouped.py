"""Splits by whole groups, such as a person's recordings, days or sessions (a file's ``group``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.config.tested import Fold
from fedsub_core.data.client_data import ClientData
from fedsub_core.errors import DataError

BoolArray = NDArray[np.bool_]
Counts = NDArray[np.int64]


def several_groups(client: ClientData) -> bool:
    """Return whether a client's samples are of two groups at least."""
    group = client.group
    return group is not None and bool((group != group[0]).any())


def grouped_tests(
    client: ClientData, share: float, fresh: BoolArray, train: BoolArray, test: BoolArray
) -> BoolArray:
    """Return the mask of the `fresh` samples that are tested, bool [n]: those of whole groups.

    Samples of a group that is tested already are tested, those of a trained one are not. Of the
    other groups the later ones come first. A group is tested if each of its classes is still
    trained without it, and if the tested samples of each class come nearer to `share`, summed over
    classes. Where no group could be tested so, the one that comes nearest is: of those without
    which each class is still trained, if there are any.

    Parameters
    ----------
    client : with groups.
    share : of each class, in (0, 1).
    fresh, train, test : bool [n], samples yet to be placed, and those that have been.
    """
    group, y = client.group, client.y
    assert group is not None
    placed = group[train | test]
    added = fresh & np.isin(group, group[test]) & ~np.isin(group, group[train])
    counts = {int(g): _counted(client, group == g) for g in np.unique(group[fresh])}
    new = [g for g in _latest_first(client) if g in counts and g not in placed]
    tested, rest = _counted(client, test | added), _counted(client, (train | fresh) & ~added)
    wanted = share * np.bincount(y)

    def away(taken: Counts) -> float:
        return float(np.abs(taken - wanted).sum())

    def trained_without(g: int) -> bool:
        return bool((rest - counts[g])[counts[g] > 0].all())

    chosen = []
    for g in new:
        if trained_without(g) and away(tested + counts[g]) < away(tested):
            chosen.append(g)
            tested, rest = tested + counts[g], rest - counts[g]
    if not tested.any() and (len(new) > 1 or train.any()):
        chosen = [min(new, key=lambda g: (not trained_without(g), away(counts[g])))]
    return added | (fresh & np.isin(group, chosen))


def grouped_fold(client: ClientData, fold: Fold) -> BoolArray:
    """Return the mask of the samples of a fold, bool [n]: successive groups, in order of time.

    Raises DataError where there are fewer groups than folds.
    """
    number, of = fold
    groups = [] if client.group is None else _latest_first(client)[::-1]
    if len(groups) < of:
        raise DataError(
            f"client {client.client!r}: fold = {number}/{of}: got {len(groups)} recordings, days "
            "or sessions, expected as many as folds at least. Ask for fewer folds, or set split = "
            "blocked"
        )
    assert client.group is not None
    return np.isin(client.group, np.array_split(groups, of)[number - 1])


def one_sided(client: ClientData, train: NDArray[np.int64], test: NDArray[np.int64]) -> Counts:
    """Return the classes that are tested without training, or trained without a test, int64 [k].

    Classes that the client has in one group alone are so. `train` and `test` are indices [n].
    """
    return np.setxor1d(client.y[train], client.y[test])


def _counted(client: ClientData, rows: BoolArray) -> Counts:
    return np.bincount(client.y[rows], minlength=int(client.y.max()) + 1)


def _latest_first(client: ClientData) -> list[int]:
    """Return the groups, the one whose first sample is latest first; without `t` by the file."""
    assert client.group is not None
    when = np.arange(len(client.y)) if client.t is None else client.t
    groups, at = np.unique(client.group, return_inverse=True)
    first = np.full(len(groups), np.inf)
    np.minimum.at(first, at, when)
    return [int(g) for g in groups[np.argsort(-first, kind="stable")]]
