"""Who is like whom, by the means of their classes, which their sums say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedsub_core.method_parts.ridge_tensors import CROSS
from fedsub_core.methods.fedsub_ridge import FedSubRidgeHyperparameters
from strategies.methods.fedsub_ridge.people import key, people
from strategies.parts.dividing import divided_into
from strategies.rounds.server_half import State

Distances = NDArray[np.float64]


def members(state: State, hyper: FedSubRidgeHyperparameters) -> dict[str, list[tuple[str, ...]]]:
    """Return the people of each of a person's groups, by person; () where it is everybody's.

    A list of one for ``clusters`` and ``nearest``; of one for each class for ``class``. A person
    is in all of its own groups.
    """
    clients = people(state)
    if not clients or hyper.groups == "none":
        return {client: [] for client in clients}
    apart = class_distances(state, clients)
    if hyper.groups == "nearest":
        distances = mean_distances(apart)
        np.fill_diagonal(distances, -1)  # oneself is the nearest
        order = distances.argsort(axis=1, kind="stable")[:, : hyper.near]
        return {
            client: [tuple(sorted(clients[i] for i in near))]
            for client, near in zip(clients, order, strict=True)
        }
    if hyper.groups == "clusters":
        columns = [_clusters(mean_distances(apart), clients, hyper.cluster_count)]
    else:
        columns = []
        for distances in apart:
            with_class = np.flatnonzero(~np.isnan(np.diagonal(distances)))
            those = [clients[i] for i in with_class]
            own = distances[np.ix_(with_class, with_class)]
            columns.append(_clusters(own, those, hyper.cluster_count))
    return {client: [column.get(client, ()) for column in columns] for client in clients}


def class_distances(state: State, clients: Sequence[str]) -> Distances:
    """Return how far people's class means are apart, ``[classes, n, n]``; NaN where one has none.

    In features as they are: a sum of levels over that of the constant, which is a feature of 1. Of
    two people the features count that both have, as much as all of them would.
    """
    crosses = []
    for client in clients:
        crosses.append(state[key(CROSS, client)].numpy().astype(np.float32))
    widths = np.array([cross.shape[1] - 1 for cross in crosses])
    levels = np.unique(widths)
    common = np.minimum(widths[:, None], widths)
    found = []
    for y in range(len(crosses[0])):
        rows = np.zeros((len(crosses), levels[-1] + 1))
        for row, cross in zip(rows, crosses, strict=True):
            row[: cross.shape[1]] = cross[y]
        held = rows[:, 0] > 0
        means = rows[:, 1:] / np.where(held, rows[:, 0], 1)[:, None]
        apart = np.zeros((len(rows), len(rows)))
        for begin, end in pairwise([0, *levels]):
            block = means[:, begin:end]
            squares = (block**2).sum(1)
            between = squares[:, None] + squares - 2 * block @ block.T
            apart += np.where(common >= end, between, 0)
        apart *= levels[-1] / common
        np.fill_diagonal(apart, 0)
        found.append(np.sqrt(np.maximum(apart, 0)))
        found[-1][~held] = found[-1][:, ~held] = np.nan
    return np.stack(found)


def mean_distances(apart: Distances) -> Distances:
    """Return the mean over classes that both have, ``[n, n]``; without any: the farthest there is.

    `apart` is :func:`class_distances`.
    """
    both = ~np.isnan(apart)
    total, count = np.where(both, apart, 0).sum(0), both.sum(0)
    mean = total / np.maximum(count, 1)
    found: Distances = np.where(count > 0, mean, mean.max(initial=0))
    return found


def _clusters(
    distances: Distances, clients: Sequence[str], count: int
) -> dict[str, tuple[str, ...]]:
    """Return the people of everybody's cluster, by person."""
    labels = divided_into(distances, "average", f"fixed:{count}")
    return {
        client: tuple(c for c, one in zip(clients, labels, strict=True) if one == label)
        for client, label in zip(clients, labels, strict=True)
    }
