"""FedSub, the server half (algorithm 2): fuse subnetworks of who is alike, send what changed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedsub_core.config.settings import ServerSettings
from fedsub_core.errors import ConfigError
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.fusion import changed, fuse
from strategies.methods.fedsub.membership import cluster_weights, leaves_alone
from strategies.methods.fedsub.robust import row_mean, without_outliers
from strategies.methods.fedsub.subnetworks import SubnetworkStrategy
from strategies.rounds.server_half import State
from strategies.rounds.strategy import RoundCallback


class FedSubStrategy(SubnetworkStrategy):
    """Every client gets its own sparse update, fused by class from clients like it."""

    def __init__(self, settings: ServerSettings, on_round: RoundCallback | None = None) -> None:
        super().__init__(settings, on_round)
        if self.hyper.fusion == "leadership" and settings.robust.mean != "mean":
            raise ConfigError(
                f"robust: got {settings.robust.mean!r} with fedsub.fusion=leadership, which takes "
                "one client's rows and no mean; expected clip, multi-krum or another fusion"
            )

    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Fuse for all these clients at once; send only rows that differ from a client's own."""
        cache, clusters = self.cached(state)
        versions = cache.versions()
        asked = [cache.roster.place[client] for client in clients if client in versions]
        alone = not leaves_alone(self.hyper.fusion, self.hyper.fusion_reading)
        concerned = _concerned(clusters, asked, alone)
        if len(concerned) < len(clusters):
            cache, clusters = cache.only(concerned), clusters[concerned]
        found = self._fused(cache, clusters, clients)
        return [Bundle(version=versions.get(c, 0), tensors=found.get(c, {})) for c in clients]

    def _fused(
        self, cache: Cache, clusters: Tensor, clients: Sequence[str]
    ) -> dict[str, dict[str, Part]]:
        """Return the rows that differ from a client's own, of those in the cache, by layer."""
        places = {c: cache.roster.place[c] for c in clients if c in cache.roster.place}
        found: dict[str, dict[str, Part]] = {client: {} for client in places}
        if not found:
            return found
        weights = cluster_weights(
            self.hyper.fusion,
            clusters.numpy(),
            cache.tensors["holds"].numpy(),
            cache.tensors["omega"].numpy(),
            self.hyper.fusion_reading,
        )
        layers = self.model.affine[: self.hyper.depth or None]
        names = [(rows.name, layer.name) for layer in layers for rows in layer.rows]
        everybodys = [cache.tensors[f"rows.{name}"] for name, _ in names]
        weights = without_outliers(weights, everybodys, self.settings.robust)
        mean = row_mean(self.settings.robust)
        for (name, layer), rows in zip(names, everybodys, strict=True):
            fused, replaced = fuse(weights, rows, cache.tensors[f"masks.{layer}"], mean)
            replaced = changed(fused, rows, replaced)
            for client, i in places.items():
                units = replaced[i]
                if units.any():
                    found[client][name] = Floats.rows(units.numpy(), fused[i, units].numpy())
        return found


def _concerned(clusters: Tensor, clients: Sequence[int], alone: bool) -> Tensor:
    """Return who shares a cluster with any of the clients; places, ascending.

    The clients themselves are among them, but for those `alone` in all their clusters only if
    these are asked for, too.
    """
    asked = torch.zeros(len(clusters), dtype=torch.bool)
    asked[list(clients)] = True
    found = asked & alone
    for of in clusters.unbind(1):
        sizes = torch.bincount(of + 1, minlength=1)  # from -1, who is in none
        sizes[0] = 0
        shared = sizes[of + 1] > 1
        found |= shared & torch.isin(of, of[asked & shared])
    return found.nonzero().flatten()
