"""Everybody's clusters from round to round: a class that did not change is not clustered again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedsub_core.metrics import MetricRow
from fedsub_core.seeds import derive_seed
from fedsub_core.turn import Turn
from strategies.methods.fedsub.clustering import cluster_classes
from strategies.methods.fedsub.indices import quality
from strategies.parts.roster import Roster
from strategies.rounds.server_half import State

#: In a state: the last clustering, and the prototypes that it was made of.
CLUSTERS = ("clusters", "clustered")


def no_clusters(clients: int, classes: int, size: int) -> State:
    """Return the state of a clustering in which everybody is in no cluster."""
    return {
        "clusters": torch.full((clients, classes), -1, dtype=torch.int64),
        "clustered": torch.zeros(clients, classes, size, dtype=torch.float64),
    }


def aligned(state: State, before: Roster, after: Roster, classes: int, size: int) -> State:
    """Return the last clustering, in the order of the new cache's clients."""
    old = {name: state[name] for name in CLUSTERS}
    if before == after:
        return old
    empty = no_clusters(len(after.clients), classes, size)
    return {name: before.moved(old[name], tensor, after) for name, tensor in empty.items()}


def recluster(
    old: State,
    prototypes: Tensor,
    present: Tensor,
    k_selection: str,
    turn: Turn,
    workers: int,
) -> tuple[Tensor, list[MetricRow]]:
    """Return everybody's clusters int64 [n, classes], and how well the new ones stand apart.

    Parameters
    ----------
    old : of :func:`aligned`.
    prototypes : float64 [n, classes, d].
    present : bool [n, classes], who has a prototype of the class.
    k_selection : how many clusters a class has.
    workers : in how many processes classes are clustered.
    """
    clusters = torch.full(present.shape, -1, dtype=torch.int64)
    points, seeds = {}, {}
    for y, (inside, before) in enumerate(zip(present.T, old["clusters"].T, strict=True)):
        mine, then = prototypes[inside, y], old["clustered"][inside, y]
        if torch.equal(inside, before >= 0) and torch.equal(mine, then):
            clusters[:, y] = before
        elif inside.any():
            points[y] = mine.numpy()
            seeds[y] = derive_seed(turn.seed, "", 0, f"clusters of class {y}")
    rows: list[MetricRow] = []
    labels_of = cluster_classes(points, k_selection, seeds, workers) if points else {}
    for y, labels in labels_of.items():
        clusters[present[:, y], y] = torch.from_numpy(labels)
        indices = quality(points[y], labels).items()
        rows += [MetricRow(turn.round, "", y, name, value) for name, value in indices]
    return clusters, rows


def cluster_rows(clusters: Tensor, round: int) -> Iterator[MetricRow]:
    """Yield the number of each class's clusters, as the whole federation's metric."""
    for y, labels in enumerate(clusters.unbind(1)):
        # Not the last one's number: one is left empty where its only person is forgotten.
        count = len(set(labels.tolist()) - {-1})
        if count:
            yield MetricRow(round, "", y, "clusters", float(count))


def member_rows(roster: Roster, clusters: Tensor, round: int) -> Iterator[MetricRow]:
    """Yield the cluster of each person in each class, where there is one."""
    for client, labels in zip(roster.clients, clusters.tolist(), strict=True):
        for y, cluster in enumerate(labels):
            if cluster >= 0:
                yield MetricRow(round, client, y, "cluster", cluster)
