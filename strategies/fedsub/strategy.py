"""FedSub, the server half (Algorithm 2): cache, impute, cluster, fuse, send what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch

from fedsub_core.models.chain import Model
from fedsub_core.seeds import derive_seed
from fedsub_core.wire.bundles import Download, UnitRows, Upload
from fedsub_core.wire.envelope import Envelope
from strategies.fedsub.cache import Cache
from strategies.fedsub.clustering import cluster_classes
from strategies.fedsub.fusion import fuse
from strategies.fedsub.imputation import impute
from strategies.fedsub.membership import cluster_weights
from strategies.rounds.strategy import PersonalizedStrategy, State


class FedSubStrategy(PersonalizedStrategy):
    """Every client gets its own sparse update, fused by class from clients like it.

    State: the cache's tensors, and ``clusters`` int64 [n, classes] (-1: in none) with the
    prototypes they were made of, so that an unchanged class is not clustered again.
    """

    def prototype_size(self, model: Model) -> int:
        """Features of a sample, or of the last hidden layer for ``prototype = "embedding"``."""
        embedding = self.hyper.prototype == "embedding"
        return model.affine[-1].fan_in if embedding else prod(model.input_shape)

    def init(self, model: Model) -> State:
        """Return an empty cache."""
        size = self.prototype_size(model)
        cache = Cache.empty((), model, size)
        return cache.state() | _no_clusters(0, model.classes, size)

    def check(self, upload: Upload, envelope: Envelope) -> None:
        """Demand a subnetwork for every class, on the layers that the depth names."""
        layers = [layer.name for layer in envelope.model.affine[: self.hyper.depth or None]]
        if list(upload.layers) != layers:
            raise envelope.refuse("layers", list(upload.layers), layers)
        if not len(upload.labels):
            raise envelope.refuse("classes", "none", "at least one")
        if upload.labels.tolist() == list(upload.prototypes):
            return
        version, labels = self._known_prototypes(envelope.client)
        known = 0 < version == upload.prototype_version and upload.labels.tolist() == labels
        if upload.prototypes or not known:
            raise envelope.refuse(
                "prototypes", sorted(upload.prototypes), f"all of {upload.labels.tolist()}"
            )

    def aggregate(
        self, state: State, uploads: Mapping[str, Upload], round: int, model: Model
    ) -> State:
        """Update the cache, predict missing prototypes if asked to, cluster what changed."""
        size = self.prototype_size(model)
        before = Cache.of(_part(state, clusters=False))
        cache = before.updated(uploads, model, size)
        prototypes, present = self._prototypes(cache)
        old = _aligned(state, before, cache, model.classes, size)
        clusters = torch.full(present.shape, -1, dtype=torch.int64)
        stale: list[int] = []
        for y in range(model.classes):
            same = torch.equal(present[:, y], old["clusters"][:, y] >= 0) and torch.equal(
                prototypes[present[:, y], y], old["clustered"][present[:, y], y]
            )
            if same:
                clusters[:, y] = old["clusters"][:, y]
            elif present[:, y].any():
                stale.append(y)
        if not stale:
            return cache.state() | {"clusters": clusters, "clustered": prototypes}
        seeds = {y: derive_seed(self.config.seed, "", 0, f"clusters of class {y}") for y in stale}
        points = {y: prototypes[present[:, y], y].numpy() for y in stale}
        found = cluster_classes(points, self.hyper.k_selection, seeds, self.config.workers)
        for y, labels in found.items():
            clusters[present[:, y], y] = torch.from_numpy(labels)
        return cache.state() | {"clusters": clusters, "clustered": prototypes}

    def downloads(self, state: State, clients: Sequence[str], model: Model) -> list[Download]:
        """Fuse for every client at once; send only rows that differ from the client's own."""
        cache = Cache.of(_part(state, clusters=False))
        if not cache.clients:
            return [Download()] * len(clients)
        position = {client: i for i, client in enumerate(cache.clients)}
        layers: list[dict[str, UnitRows]] = [{} for _ in cache.clients]
        weights = cluster_weights(
            self.hyper.fusion,
            state["clusters"].numpy(),
            cache.tensors["holds"].numpy(),
            cache.tensors["omega"].numpy(),
        )
        for layer in model.affine[: self.hyper.depth or None]:
            rows = cache.tensors[f"rows.{layer.name}"]
            fused, replaced = fuse(weights, rows, cache.tensors[f"masks.{layer.name}"])
            # A client alone in its clusters gets its own rows back: it has them already.
            replaced &= (fused != rows).any(-1)
            for i in range(len(layers)):
                units = replaced[i]
                if units.any():
                    layers[i][layer.name] = UnitRows(units.numpy(), fused[i, units].numpy())
        versions = cache.tensors["versions"].tolist()
        return [
            Download(layers[position[c]], prototype_version=versions[position[c]])
            if c in position
            else Download()
            for c in clients
        ]

    def _prototypes(self, cache: Cache) -> tuple[torch.Tensor, torch.Tensor]:
        """Return prototypes [n, classes, d] to cluster and which of them there are."""
        prototypes, present = cache.tensors["prototypes"].double(), cache.tensors["holds"]
        if not self.hyper.impute:
            return prototypes, present
        filled, imputed = impute(prototypes.numpy(), present.numpy(), self.hyper.impute_neighbours)
        return torch.from_numpy(filled), present | torch.from_numpy(imputed)

    def _known_prototypes(self, client: str) -> tuple[int, list[int]]:
        """Return the version of a client's cached prototypes, 0 if none, and their classes."""
        assert self.state is not None
        cache = Cache.of(_part(self.state, clusters=False))
        if client not in cache.clients:
            return 0, []
        i = cache.clients.index(client)
        holds = cache.tensors["holds"][i].nonzero().flatten()
        return int(cache.tensors["versions"][i]), holds.tolist()


def _part(state: State, clusters: bool) -> State:
    """Return the clustering's part of the state, or the cache's."""
    return {k: t for k, t in state.items() if (k in ("clusters", "clustered")) == clusters}


def _no_clusters(clients: int, classes: int, size: int) -> State:
    return {
        "clusters": torch.full((clients, classes), -1, dtype=torch.int64),
        "clustered": torch.zeros(clients, classes, size, dtype=torch.float64),
    }


def _aligned(state: State, before: Cache, after: Cache, classes: int, size: int) -> State:
    """Return the last clustering, in the order of the new cache's clients."""
    if before.clients == after.clients:
        return _part(state, clusters=True)
    aligned = _no_clusters(len(after.clients), classes, size)
    position = [after.clients.index(client) for client in before.clients]
    for name, tensor in aligned.items():
        tensor[position] = state[name]
    return aligned
