"""Subnetworks by class, the server half: cache, impute, cluster (FedSub, algorithm 2).

What is fused of them is a method's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.methods.fedsub import CLASSES, MASKS, PROTOTYPES, SCORE, prototype_size
from fedsub_core.metrics import MetricRow
from fedsub_core.models.architecture import Architecture
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedsub.bounds import LONGEST, begun, bounded
from strategies.methods.fedsub.cache import CLIENTS, Cache
from strategies.methods.fedsub.centre import nearer
from strategies.methods.fedsub.holdings import HeldPart, Holdings, comparable
from strategies.methods.fedsub.imputation import impute
from strategies.methods.fedsub.kept_clusters import (
    CLUSTERS,
    aligned,
    cluster_rows,
    member_rows,
    no_clusters,
    recluster,
)
from strategies.parts.averaging import malicious
from strategies.parts.roster import Roster, RosterMemory
from strategies.rounds.context import Sender, Start
from strategies.rounds.lasting_states import in_front
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State


class SubnetworkServer(ServerHalf):
    """Hears of everybody's subnetworks and prototypes, and clusters people by class.

    State: the cache's tensors, and ``clusters`` int64 [n, classes] (-1: in none) with the
    prototypes they were made of, so that an unchanged class is not clustered again. With
    ``robust=clip`` also ``longest``, see :mod:`strategies.methods.fedsub.bounds`.
    """

    keeps_people, gains_classes = True, True

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._roster = RosterMemory()

    def init(self, start: Start) -> State:
        """Return an empty cache."""
        model, size = start.model, prototype_size(start.model, self.hyper)
        nobody = Cache.empty(Roster(()), model, size).state()
        return nobody | no_clusters(0, model.classes, size)

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Refuse an upload without a subnetwork and a prototype of every class that is held."""
        held = upload.bits(CLASSES)
        if not held.any():
            raise sender.refuse("classes", "none", "at least one")
        scores = upload.floats(SCORE)
        most = upload.examples if "samples" in self.hyper.score else 1
        # A lossy encoding may round up.
        if not ((scores >= 0) & (scores <= 1.01 * most)).all() or scores[~held].any():
            expected = f"0 to {most}, and 0 for classes without a subnetwork"
            raise sender.refuse("scores", scores.tolist(), expected)
        for layer in round.model.affine[: self.hyper.depth or None]:
            masks = upload.bits(layer.name + MASKS)
            came = [upload.part(rows.name).at.held(masks.shape[1:]) for rows in layer.rows]
            chosen = masks.any(0)
            if masks[~held].any() or any((chosen > rows).any() for rows in came):
                expected = "of classes held, a subset of the layer's rows"
                raise sender.refuse(f"masks of layer {layer.name}", "other units", expected)
        sent = np.zeros_like(held)
        if PROTOTYPES in upload.tensors:
            sent = upload.part(PROTOTYPES).at.held(held.shape)
        if (sent != held).any() and (sent.any() or not self._holds(state, sender.client, upload)):
            got, labels = sent.nonzero()[0].tolist(), held.nonzero()[0].tolist()
            raise sender.refuse("prototypes of classes", got, f"all of {labels}")

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Update the cache, predict missing prototypes if asked to, cluster what changed."""
        model, size = round.model, prototype_size(round.model, self.hyper)
        before, robust = Cache.of(_cached(state)), self.settings.robust
        # Before the cache changes: where nobody is new it is the same one.
        start = (
            begun(before, self._sent(state, round), self.holdings(before, round))
            if robust.clip
            else None
        )
        placed = {c: self.placed(state, round, c, upload) for c, upload in uploads.items()}
        capacities = {client: capacity_of(round, client) for client in uploads}
        cache = before.updated(placed, model, size, capacities)
        usual: State = {}
        if start is not None:
            known = torch.zeros(len(cache.roster.clients), start.shape[1])
            start = before.roster.moved(start, known, cache.roster)
            last, held = state.get(LONGEST), self.holdings(cache, round)
            cache, longest = bounded(cache, robust.most_examples, last, start, held)
            cache = nearer(cache, self.shared_rows(round), held)
            usual[LONGEST] = longest
        prototypes, present = self._prototypes(cache, round)
        old = aligned(state, before.roster, cache.roster, model.classes, size)
        k_selection, workers = self.hyper.k_selection, self.settings.workers
        clusters, apart = recluster(old, prototypes, present, k_selection, round.turn, workers)
        new = cache.state() | usual | {"clusters": clusters, "clustered": prototypes}
        rows = [
            *_size_rows(round.held_by, self.hyper.depth, uploads, round.number),
            *cluster_rows(clusters, round.number),
            *apart,
        ]
        if self.settings.rounds.evaluated(round.number):
            rows += member_rows(cache.roster, clusters, round.number)
        return new, rows

    def placed(self, state: State, round: Round, client: str, bundle: Bundle) -> Bundle:
        """Return a client's message in the places of the whole model's rows."""
        if client not in round.narrow:
            return bundle
        embeddings = self.hyper.prototype == "embedding"
        return part_of(round, capacity_of(round, client)).placed(bundle, round.model, embeddings)

    def shared_rows(self, round: Round) -> dict[str, str]:
        """Return the names of the rows that are collaborated on, each with its layer's."""
        layers = round.model.affine[: self.hyper.depth or None]
        return {rows.name: layer.name for layer in layers for rows in layer.rows}

    def place(self, cache: Cache, round: Round, client: str) -> int | None:
        """Return a client's place in the cache; None where it is not there as it is now.

        Who came back with another capacity begins anew, and what was heard of it fits no more.
        """
        i = cache.roster.place.get(client)
        if i is None or float(cache.tensors["capacity"][i]) != capacity_of(round, client):
            return None
        return i

    def holdings(self, cache: Cache, round: Round) -> Holdings:
        """Return the parts of the model that the people in the cache hold."""
        capacities, which = torch.unique(cache.tensors["capacity"], return_inverse=True)
        return Holdings([part_of(round, c) for c in capacities.tolist() or [1.0]], which)

    def cached(self, state: State) -> tuple[Cache, Tensor]:
        """Return the cache of every client's last upload, and everybody's clusters."""
        return Cache.of(_cached(state)), state["clusters"]

    def taken_over(self, state: State, before: Start, now: Start) -> State:
        """Return the state with room for further classes, which nobody holds."""
        self.check_gains(before.model.classes, now.model.classes)
        roster, lengths = Roster.of(state[CLIENTS]), {k: state[k] for k in (LONGEST,) if k in state}

        def nobody(model: Model) -> State:
            size = prototype_size(model, self.hyper)
            shares = [n.removeprefix("shares.") for n in state if n.startswith("shares.")]
            empty = Cache.empty(roster, model, size, shares).state()
            return empty | no_clusters(len(roster.clients), model.classes, size) | lengths

        return in_front(self.card, state, nobody(before.model), nobody(now.model))

    def standardised_anew(self, state: State, start: Start) -> tuple[State, str]:
        """Return an empty cache: whoever comes next sends its prototypes again."""
        return self.init(start), "everybody's prototypes, subnetworks and clusters"

    def without(self, state: State, client: str) -> State:
        """Return the state without a client's row; clusters that it helped to make stay."""
        roster = Roster.of(state[CLIENTS])
        kept = [i for i, other in enumerate(roster.clients) if other != client]
        everybodys = {name: state[name] for name in (CLIENTS, LONGEST) if name in state}
        rows = {name: tensor[kept] for name, tensor in state.items() if name not in everybodys}
        return everybodys | {CLIENTS: roster.without(client).tensor(), **rows}

    def _prototypes(self, cache: Cache, round: Round) -> tuple[Tensor, Tensor]:
        """Return prototypes [n, classes, d] to cluster and which of them there are."""
        prototypes, present = cache.tensors["prototypes"].double(), cache.tensors["holds"]
        if self.hyper.prototype == "embedding":
            held, robust = (
                self.holdings(cache, round).embeddings(prototypes.shape[2]),
                self.settings.robust,
            )
            lacking = malicious(robust, len(held)) if robust.clip else 0
            prototypes = comparable(prototypes, present, held, lacking)
        if not self.hyper.impute:
            return prototypes, present
        filled, imputed = impute(prototypes.numpy(), present.numpy(), self.hyper.impute_neighbours)
        return torch.from_numpy(filled), present | torch.from_numpy(imputed)

    def _sent(self, state: State, round: Round) -> dict[str, Bundle]:
        """Return the downloads of the round's clients, in the places of the whole model's rows."""
        return {c: self.placed(state, round, c, sent) for c, sent in round.sent.items()}

    def _holds(self, state: State, client: str, upload: Bundle) -> bool:
        """Whether the cache holds the version of a client's prototypes that `upload` names."""
        i = self._roster.of(state[CLIENTS]).place.get(client)
        if i is None or not 0 < upload.version == int(state["versions"][i]):
            return False
        return bool((state["holds"][i].numpy() == upload.bits(CLASSES)).all())


def capacity_of(round: Round, client: str) -> float:
    """Return the share of each layer's units that a client's device holds."""
    return round.capacities[client] if client in round.narrow else 1.0


@lru_cache(maxsize=64)
def _held_part(model: Model, capacity: float) -> HeldPart:
    return HeldPart.of(model, capacity)


def part_of(round: Round, capacity: float) -> HeldPart:
    """Return the part of the model that a device of a capacity holds."""
    return _held_part(round.model, capacity)


def _size_rows(
    held_by: Callable[[str], Architecture], depth: int, uploads: Mapping[str, Bundle], round: int
) -> Iterator[MetricRow]:
    """Yield the bytes of two plain float32 encodings: the papers', and the union of the rows.

    The papers send every class's subnetwork on its own; the union has each selected row once.
    """
    for client, upload in uploads.items():
        papers = union = 0
        for layer in held_by(client).affine[: depth or None]:
            chosen = int(upload.bits(layer.name + MASKS).sum())
            papers += 4 * chosen * sum(rows.width for rows in layer.rows)
            union += 4 * sum(upload.floats(rows.name).size for rows in layer.rows)
        yield MetricRow(round, client, None, "bytes_up_papers", papers)
        yield MetricRow(round, client, None, "bytes_up_union", union)


def _cached(state: State) -> State:
    """Return the cache's part of the state."""
    return {k: t for k, t in state.items() if k not in (*CLUSTERS, LONGEST)}
