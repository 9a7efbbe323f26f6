"""Clusters of a class that are known by their centroids alone, and by how many people are in each.

They begin as one. The largest is split as Linde, Buzo and Gray (An Algorithm for Vector Quantizer
Design, 1980) do, by centroids that lie close to the one before, until there are as many as the run
says. Means of prototypes move centroids (Lloyd's algorithm); devices find the nearest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.methods.fedsub_sums import CENTROIDS, OPEN
from fedsub_core.seeds import generator
from fedsub_core.turn import Turn
from strategies.rounds.server_half import State

#: By class and cluster: from which round on counts are of its people as they are now, int64; and
#: whether its centroid is a mean of prototypes, bool.
SINCE, PLACED = "since", "placed"
#: How often clusters of a class were split, int64 [classes]; and for each cluster beyond the first
#: how often it is tried: halves that are too small are closed.
SPLITS, TRIES = "splits", 3
#: How far centroids of a split cluster lie apart: any distance divides people by the same plane.
APART = 1e-2


def one_of_each(each: tuple[int, ...], size: int) -> State:
    """Return the part of a state that is clusters: one of each class, whose place is not known.

    Parameters
    ----------
    each : how many classes there are, and clusters of each at most.
    size : numbers of a prototype.
    """
    state = {
        CENTROIDS: torch.zeros(*each, size),
        OPEN: torch.zeros(each, dtype=torch.bool),
        SINCE: torch.zeros(each, dtype=torch.int64),
        PLACED: torch.zeros(each, dtype=torch.bool),
        SPLITS: torch.zeros(each[0], dtype=torch.int64),
    }
    state[OPEN][:, 0] = True
    return state


def reshaped(state: State, people: Tensor, turn: Turn, least: int) -> tuple[State, Tensor]:
    """Return the part of a state that is clusters after a round, and which have others in them now.

    Of each class one cluster is closed that fewer than `least` people are in; if there is none, one
    is split that enough people for two are in.

    Parameters
    ----------
    people : how many are in each, int64 [classes, K].
    """
    part = {n: state[n].clone() for n in (CENTROIDS, OPEN, SINCE, PLACED, SPLITS)}
    opened, changed = part[OPEN], torch.zeros_like(part[OPEN])
    most = TRIES * (opened.shape[1] - 1)
    for y, (now, of) in enumerate(zip(opened, people, strict=True)):
        counted = now & (part[SINCE][y] <= turn.round)
        small = counted & (of < least)
        if small.any() and now.sum() > 1:
            # One at a time: two small ones may be large enough together.
            now[torch.where(small, of, of.max() + 1).argmin()] = False
            changed[y] = now | small
        elif not now.all() and part[SPLITS][y] < most:
            ready = counted & part[PLACED][y] & (of >= 2 * least)
            if ready.any():
                halves = [int(torch.where(ready, of, -1).argmax()), int((~now).nonzero()[0])]
                drawn = generator(turn.seed, "", turn.round, f"split of class {y}")
                way = APART * torch.randn(part[CENTROIDS].shape[2], generator=drawn)
                middle = part[CENTROIDS][y, halves[0]]
                part[CENTROIDS][y, halves] = torch.stack([middle + way, middle - way])
                now[halves], changed[y, halves] = True, True
                part[SPLITS][y] += 1
    part[SINCE][changed] = turn.round + 1
    part[PLACED] &= ~changed
    return part, changed
