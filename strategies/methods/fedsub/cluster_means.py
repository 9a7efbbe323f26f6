"""What a secure sum says of FedSub's clusters: means of prototypes and rows, and counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.methods.fedsub_sums import (
    ASKED,
    ASKED_UNITS,
    CENTROIDS,
    MEANS,
    SELECTED_BY_ALL,
)
from fedsub_core.secure.cluster_slots import (
    MEMBERS,
    PEOPLE,
    PROTOTYPES,
    SELECTED,
    Array,
    Layout,
)
from strategies.methods.fedsub.public_clusters import PLACED
from strategies.rounds.server_half import ServerHalf, State

#: By rows: of which units there are means.
KNOWN = ".known"


class ClusterMeans(ServerHalf):
    """The part of a server half that reads sums.

    State: by class and cluster means, and how many people there are of what.
    """

    #: What the round asks for, as a download says it.
    _asked: Mapping[str, NDArray[np.bool_]] = {}

    def means_of(self, state: State, found: Mapping[str, Array]) -> State:
        """Return the part of a state that is means of what was asked for."""
        people, sums = ones_and_sums(found[PROTOTYPES])
        members = np.rint(found[MEMBERS]).astype(np.int64)
        placed = self._asked[ASKED] & (people >= self._least)
        centroids = state[CENTROIDS].clone()
        centroids[placed] = torch.from_numpy(mean_of(sums, people)[placed])
        part: State = {CENTROIDS: centroids, PLACED: torch.from_numpy(placed) | state[PLACED]}
        for layer in self.layout.layers:
            select = np.rint(found[SELECTED + layer.name]).astype(np.int64)
            by_all = placed[..., None] & (select == people[..., None])
            for own in layer.rows:
                selected, sums = ones_and_sums(found[own.name])
                asked = self._asked[layer.name + ASKED_UNITS].reshape(selected.shape)
                known = asked & (selected >= self._least)
                # Of means, all people whose rows they are of.
                by_all &= ~asked | (known & (selected == members[..., None]))
                means = np.where(known[..., None], mean_of(sums, selected), np.float32(0))
                part[own.name + MEANS] = torch.from_numpy(means)
                part[own.name + KNOWN] = torch.from_numpy(known)
            part[layer.name + SELECTED_BY_ALL] = torch.from_numpy(by_all)
        return part

    def counts(self) -> list[str]:
        """Return which parts of a sum say how many people something is of now."""
        return [PEOPLE, *(SELECTED + layer.name for layer in self.layout.layers)]

    @property
    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return Layout.of(round.model, self.hyper)

    @property
    def _least(self) -> int:
        return self.settings.secure.secure_least


def ones_and_sums(sums: Array) -> tuple[NDArray[np.int64], Array]:
    """Return how many people are in each sum, and the sums themselves."""
    return np.rint(sums[..., 0]).astype(np.int64), sums[..., 1:]


def mean_of(sums: Array, people: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return means; 0 of nobody."""
    mean: NDArray[np.float32] = (sums / np.maximum(people, 1)[..., None]).astype(np.float32)
    return mean
