"""FedSub, the server half (algorithm 2): fuse subnetworks of who is alike, send what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import ConfigError
from fedsub_core.wire.bundles import BoolArray, Bundle, FloatArray, Part
from strategies.methods.fedsub.block_weights import BlockWeights, by_block
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.fusion import changed, fuse
from strategies.methods.fedsub.holdings import Block
from strategies.methods.fedsub.membership import leaves_alone
from strategies.methods.fedsub.robust import row_mean
from strategies.methods.fedsub.subnetworks import SubnetworkServer, capacity_of, part_of
from strategies.methods.fedsub.weights_memory import WeightsMemory
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

#: Bytes of rows that are fused at once: what comes of all would take as much memory as what ten
#: thousand people sent.
FUSED_BYTES = 2**27


class FedSubServer(SubnetworkServer):
    """Every client gets its own sparse update, fused by class from clients like it."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._weights = WeightsMemory(self.hyper.fusion, self.hyper.fusion_reading)
        if self.hyper.fusion == "leadership" and settings.robust.mean != "mean":
            raise ConfigError(
                f"robust: got {settings.robust.mean!r} with fedsub.fusion=leadership, which takes "
                "one client's rows and no mean; expected clip, multi-krum or another fusion"
            )

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Fuse for all these clients at once; send only rows that differ from a client's own."""
        cache, clusters = self.cached(state)
        versions = cache.versions()
        asked = [cache.roster.place[client] for client in clients if client in versions]
        alone = not leaves_alone(self.hyper.fusion)
        concerned = _concerned(clusters, asked, alone)
        if len(concerned) < len(clusters):
            cache, clusters = cache.only(concerned), clusters[concerned]
        tensors = self._fused(cache, clusters, round, clients)
        return [Bundle(version=versions.get(c, 0), tensors=tensors.get(c, {})) for c in clients]

    def _fused(
        self, cache: Cache, clusters: Tensor, round: Round, clients: Sequence[str]
    ) -> dict[str, dict[str, Part]]:
        """Return the rows that differ from a client's own, of those in the cache, by layer."""
        at = {client: self.place(cache, round, client) for client in clients}
        places = {client: i for client, i in at.items() if i is not None}
        tensors: dict[str, dict[str, Part]] = {client: {} for client in places}
        if not tensors:
            return tensors

        weigh = self._weights.of(clusters, cache.tensors["holds"], cache.tensors["omega"])
        robust, names = self.settings.robust, self.shared_rows(round)
        of_blocks = BlockWeights(cache, self.holdings(cache, round), list(names), robust, weigh)
        mean = row_mean(robust)

        def fuse_block(rows: Tensor, masks: Tensor, block: Block) -> tuple[Tensor, Tensor]:
            return fuse(of_blocks.weights(block), block.rows(rows), block.masks(masks), mean)

        for name, layer in names.items():
            every, every_mask = cache.tensors[f"rows.{name}"], cache.tensors[f"masks.{layer}"]
            blocks = of_blocks.blocks(name)
            units: BoolArray = np.zeros(every.shape[:2], np.bool_)
            new: list[list[FloatArray]] = [[] for _ in every]
            for some in self._units(blocks, every):
                rows, masks = every[:, some], every_mask[:, :, some]
                fused, replaced = by_block(blocks, rows, masks, partial(fuse_block, rows, masks))
                differs = units[:, some] = changed(fused, rows, replaced).numpy()
                for i in np.flatnonzero(differs.any(1)).tolist():
                    new[i].append(fused[i].numpy()[differs[i]])
            for client, i in places.items():
                if new[i]:
                    part = part_of(round, capacity_of(round, client))
                    tensors[client][name] = part.sent(name, units[i], np.concatenate(new[i]))
        return tensors

    def _units(self, blocks: Sequence[Block], rows: Tensor) -> Iterator[slice]:
        """Yield the units of a layer, of rows [n, units, width], that are fused at once."""
        n, units, width = rows.shape
        step = max(1, FUSED_BYTES // max(1, 4 * n * width))
        whole = len(blocks) == 1 and blocks[0].whole
        if not whole or self.hyper.fusion == "overlapping-additive":  # which has a layer's norm
            step = units
        yield from (slice(i, i + step) for i in range(0, units, step))


def _concerned(clusters: Tensor, clients: Sequence[int], alone: bool) -> Tensor:
    """Return who shares a cluster with any of the clients; places, ascending.

    The clients themselves are among them, but for those `alone` in all their clusters only if
    these are asked for, too.
    """
    concerned = np.zeros(len(clusters), np.bool_)
    concerned[list(clients)] = alone
    for labels in clusters.numpy().T + 1:  # 0: who is in none
        sizes = np.bincount(labels, minlength=1)
        wanted = np.bincount(labels[list(clients)], minlength=len(sizes)) > 0
        wanted[0] = False
        concerned |= (wanted & (sizes > 1))[labels]
    return torch.from_numpy(concerned.nonzero()[0])
