"""Weights of clusters from round to round: they stay while clusters, classes and scores do."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedsub_core.methods.fedsub import READINGS
from strategies.methods.fedsub.membership import ClusterWeights, cluster_weights


class WeightsMemory:
    """Weights of the last clusters, made anew only where somebody's clusters or scores changed."""

    def __init__(self, fusion: str, reading: str = READINGS[0]) -> None:
        self._how = fusion, reading
        self._of: tuple[Tensor, ...] = ()
        self._made: dict[tuple[int, ...], ClusterWeights] = {}

    def of(
        self, clusters: Tensor, contributes: Tensor, omega: Tensor
    ) -> Callable[[Tensor], ClusterWeights]:
        """Return a function of some people, int64 places, to the weights among them."""
        now = clusters, contributes, omega
        if not (self._of and all(map(torch.equal, self._of, now))):
            # Copies: the cache changes in place.
            self._of, self._made = tuple(tensor.clone() for tensor in now), {}
        (fusion, reading), made = self._how, self._made

        def weigh(people: Tensor) -> ClusterWeights:
            key = tuple(people.tolist())
            if key not in made:
                label, gives, score = (tensor[people].numpy() for tensor in now)
                made[key] = cluster_weights(fusion, label, gives, score, reading)
            return made[key]

        return weigh
