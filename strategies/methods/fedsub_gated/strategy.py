"""FedSub with a federated gate, the server half: the fused track, and weights of experts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.methods.fedsub import SHARES, prototype_size
from fedsub_core.methods.fedsub_gated import CURVES, GATE, MOST
from fedsub_core.methods.fedsub_gated_experts import judges, names
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.methods.fedsub.block_weights import BlockWeights, by_block
from strategies.methods.fedsub.cache import CLIENTS, Cache
from strategies.methods.fedsub.holdings import Block
from strategies.methods.fedsub.kept_clusters import no_clusters
from strategies.methods.fedsub.robust import row_mean
from strategies.methods.fedsub.subnetworks import SubnetworkServer, capacity_of, part_of
from strategies.methods.fedsub.weights_memory import WeightsMemory
from strategies.methods.fedsub_gated.fusion import annealed, everybodys, fuse_layer
from strategies.methods.fedsub_gated.gate import GATES, Gate
from strategies.parts.roster import Roster
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FedSubGatedServer(SubnetworkServer):
    """FedSub's cache and clusters, another fusion, and one gate for all.

    State: FedSub's, with ``shares.<layer>`` in the cache, and the gate's.
    """

    gains_classes = False

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._weights = WeightsMemory("overlapping-any")

    def init(self, start: Start) -> State:
        """Return an empty cache and a gate that knows nothing."""
        size = prototype_size(start.model, self.hyper)
        hidden = [layer.name for layer in start.model.affine[:-1]]
        cache = Cache.empty(Roster(()), start.model, size, hidden)
        gate = Gate.even(len(names(self.hyper)))
        return cache.state() | no_clusters(0, start.model.classes, size) | gate.state()

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Refuse what FedSub refuses, shares beyond 0 to 1, and impossible sums for the gate."""
        super().check(_fedsubs(state), round, sender, upload)
        for name in [n for n in upload.tensors if n.endswith(SHARES)]:
            layer = name.removesuffix(SHARES)
            shares = upload.floats(name)
            # Lossy encodings round.
            if not (abs(shares - 0.5) <= 0.6).all():
                got = f"{shares.min():g} to {shares.max():g}"
                raise sender.refuse(f"shares of layer {layer}", got, "0 to 1")
        sums = upload.floats(GATE)
        most = float(sums[-1])
        if sums.any() and not judges(self.hyper, round.number, round.turn.rounds):
            expected = "zeros: no sample is held back in this round"
            raise sender.refuse("gate", sums.tolist(), expected)
        if not 0 <= most <= upload.examples or (sums < 0).any() or sums[:-1].sum() > 1.001 * most:
            expected = f"sums of at least 0 and a count of 0 to {upload.examples}, as the sums' sum"
            raise sender.refuse("gate", sums.tolist(), expected)
        curves = upload.floats(CURVES)
        if (abs(curves) > 1.001 * MOST * most).any():
            got = f"{curves.min():g} to {curves.max():g}"
            expected = f"at most {MOST:g} for each of {most:g} samples, either way"
            raise sender.refuse(CURVES, got, expected)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Update the cache and the clusters as FedSub does, and take a step of the gate."""
        new, rows = super().aggregate(_fedsubs(state), round, uploads)
        there = len(self._roster.of(new[CLIENTS]).clients)
        most = self.settings.robust.most_examples
        gate = Gate.of(state).updated(uploads, most, len(uploads) / max(there, 1))
        gate, of_gate = gate.ended(names(self.hyper), round.turn)
        return new | gate.state(), rows + of_gate

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send rows of the fused track, and the common weights of the experts."""
        cache, clusters = self.cached(_fedsubs(state))
        versions = cache.versions()
        tensors: dict[str, dict[str, Part]]
        tensors = {client: Gate.of(state).download() for client in clients}
        if versions:
            for name, client, rows in self._fused(cache, clusters, round, clients):
                tensors[client][name] = rows
        return [Bundle(version=versions.get(c, 0), tensors=tensors[c]) for c in clients]

    def _fused(
        self, cache: Cache, clusters: Tensor, round: Round, clients: Sequence[str]
    ) -> Iterator[tuple[str, str, Floats]]:
        """Yield layers, clients and the rows that differ from a client's own."""
        omega = cache.tensors["omega"]
        weigh = self._weights.of(clusters, cache.tensors["holds"], omega)
        robust, names = self.settings.robust, self.shared_rows(round)
        of_blocks = BlockWeights(cache, self.holdings(cache, round), list(names), robust, weigh)
        mix, mean = annealed(round.number, round.turn.rounds), row_mean(robust)

        def fuse_block(
            layer: str, rows: Tensor, everybody: Tensor, known: Tensor, block: Block
        ) -> tuple[Tensor, Tensor]:
            weights, shares = of_blocks.weights(block), cache.tensors.get(f"shares.{layer}")
            own, masks = block.rows(rows), block.masks(cache.tensors[f"masks.{layer}"])
            common = everybodys(weights, own, masks, omega[block.holders], mean)
            block.put(everybody, common[0])
            block.put(known, common[1][:, None])
            share = None if shares is None else block.masks(shares)
            return fuse_layer(weights, own, masks, share, common, mix, mean)

        places = {client: self.place(cache, round, client) for client in clients}
        for name, layer in names.items():
            rows, masks = cache.tensors[f"rows.{name}"], cache.tensors[f"masks.{layer}"]
            everybody = torch.zeros_like(rows[0])
            known = torch.zeros(rows.shape[1:], dtype=torch.bool)
            fuse_rows = partial(fuse_block, layer, rows, everybody, known)
            fused, replaced = by_block(of_blocks.blocks(name), rows, masks, fuse_rows)
            replaced &= (fused != rows).any(-1)
            for client in clients:
                i, part = places[client], part_of(round, capacity_of(round, client))
                if i is not None and replaced[i].any():
                    units = replaced[i].numpy()
                    yield name, client, part.sent(name, units, fused[i].numpy()[units])
                elif i is None:  # who joins late starts from everybody's mean
                    units = part.complete(name, known.numpy())
                    yield name, client, part.sent(name, units, everybody.numpy()[units])

    def without(self, state: State, client: str) -> State:
        """Return the state without a client's row; what the gate learnt stays."""
        return super().without(_fedsubs(state), client) | Gate.of(state).state()


def _fedsubs(state: State) -> State:
    return {name: tensor for name, tensor in state.items() if name not in GATES}
