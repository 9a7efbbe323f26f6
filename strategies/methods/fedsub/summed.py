"""FedSub where the server learns sums alone, the server half.

It knows public centroids of each class (:mod:`strategies.methods.fedsub.public_clusters`), and of
each of their clusters how many people are in it, how many selected each unit, and means of their
prototypes and rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.errors import RunError
from fedsub_core.methods.fedsub_sums import (
    ASKED,
    ASKED_UNITS,
    CENTROIDS,
    COUNTED,
    MEANS,
    OPEN,
    SELECTED_BY_ALL,
)
from fedsub_core.metrics import MetricRow
from fedsub_core.secure import slots
from fedsub_core.secure.cluster_slots import (
    PEOPLE,
    SELECTED,
    Array,
    one_class_each,
)
from fedsub_core.secure.quantise import BESIDE
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part
from strategies.methods.fedsub.cluster_means import KNOWN, ClusterMeans
from strategies.methods.fedsub.public_clusters import SINCE, one_of_each, reshaped
from strategies.parts.sure_people import (
    absent,
    counted_anew,
    counted_in,
    needed,
    nobody_counted,
    not_counted,
    now_counted,
    opened_of,
    was_counted,
)
from strategies.rounds.context import Addends, Opened, Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

log = logging.getLogger("fedsub")


class SummedFedSubStrategy(ClusterMeans):
    """State: what this file's head names, by class and cluster; and who was counted when.

    ``<rows>.means`` float32 [classes, K, units, width]; ``<rows>.known`` bool [classes, K, units];
    ``<layer>.by-all`` bool, ``selected.<layer>`` int64, both [classes, K, units].
    """

    def init(self, start: Start) -> State:
        """Return one cluster of each class, of which nothing is known."""
        layout = self.layout
        state = nobody_counted() | one_of_each(layout.each, layout.size)
        for name in self.counts():
            state[name] = torch.zeros(layout.shapes[name], dtype=torch.int64)
        for layer in layout.layers:
            units = *layout.each, layer.units
            state[layer.name + SELECTED_BY_ALL] = torch.zeros(units, dtype=torch.bool)
            for own in layer.rows:
                state[own.name + MEANS] = torch.zeros(*units, own.width)
                state[own.name + KNOWN] = torch.zeros(units, dtype=torch.bool)
        return state

    def addends(self, state: State, round: Round, clients: Sequence[str]) -> Addends | None:
        """Return what is added up: counts of now, and what enough people have by the last count.

        Weak devices are in no sum: their rows have fewer numbers.
        """
        whole = [client for client in clients if client not in round.narrow]
        secure, people, gone = self.settings.secure, len(whole), absent(state, whole)
        least = needed(secure.secure_least, people)
        counted = (state[OPEN] & (state[SINCE] <= counted_in(state))).numpy()
        sure = state[PEOPLE].numpy() - gone
        self._asked = {OPEN: state[OPEN].numpy(), ASKED: counted & (sure >= least)}
        alone = counted_in(state) > 0 and not (sure >= least).any()
        if alone and not self._alone:
            log.warning(
                "round %d: no cluster of a class has %d people for sure: nothing is fused",
                round.number,
                least,
            )
        self._alone = alone
        fewest = [sure[self._asked[ASKED]]]
        for layer in self.layout.layers:
            of_units = state[SELECTED + layer.name].numpy() - gone
            able = self._asked[ASKED][..., None] & (of_units >= least)
            asked = one_class_each(able, round.number)
            self._asked[layer.name + ASKED_UNITS] = asked.reshape(-1, layer.units)
            fewest.append(of_units[asked])
        told, sure_beside = self.asked_beside(state, round.turn, least, gone)
        self._asked |= told
        fewest += sure_beside
        fewest_of = opened_of(np.concatenate(fewest), secure.secure_least, people)
        numbers = self.layout.length(self._asked) + BESIDE
        return Addends(tuple(whole), numbers, secure.secure_range, fewest_of, others=True)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send all that is known of clusters, and to those in the sum what it asks for.

        Weak devices get nothing: they train alone.
        """
        centroids = state[CENTROIDS].flatten(0, 1).numpy()
        asked = {name: Bits(mask) for name, mask in self._asked.items()}
        tensors: dict[str, Part] = {
            CENTROIDS: Floats(centroids),
            OPEN: Bits(state[OPEN].numpy()),
            **self.told_beside(state, round.turn),
        }
        for layer in self.layout.layers:
            by_all = state[layer.name + SELECTED_BY_ALL].flatten(0, 1)
            tensors[layer.name + SELECTED_BY_ALL] = Bits(by_all.numpy())
            for own in layer.rows:
                known = state[own.name + KNOWN].flatten()
                means = state[own.name + MEANS].flatten(0, 2)
                rows = Floats.rows(known.numpy(), means[known].numpy())
                tensors[own.name + MEANS] = rows
        round = float(counted_in(state))
        inside = {COUNTED: Floats(np.array([round, 1], np.float32))}
        outside = {COUNTED: Floats(np.array([round, 0], np.float32))}
        # By whether somebody is in the round's sum, and was in the one that counted.
        kinds = {
            (summed, known): Bundle(
                tensors=tensors | (asked if summed else {}) | (inside if known else outside)
            )
            for summed in (False, True)
            for known in (False, True)
        }
        return [
            Bundle(tensors=self.told_alone(state))
            if client in round.narrow
            else kinds[client in round.in_sum, was_counted(state, client)]
            for client in clients
        ]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Accept what comes: a vector under masks, of which nothing can be said, or nothing."""

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Refuse single uploads: this half goes by sums.

        Raises
        ------
        RunError
            Always.
        """
        raise RunError(f"round {round.number}: fedsub: got {len(uploads)} uploads, expected a sum")

    def aggregate_sum(
        self, state: State, round: Round, opened: Opened | None, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Take means of clusters and counts; move, close and split clusters."""
        counts = self.counts()
        if opened is None or opened.total is None:
            return self._lost(state), []
        found = self.layout.split(slots.values(opened.total, opened.levels), self._asked)
        most = max(float(found[name].max()) for name in counts)
        least = min(float(found[name].min()) for name in counts)
        people = len(opened.clients)
        if round(most) > people or round(least) < 0:
            got = f"{least:g} to {most:g} people, expected 0 to {people}"
            log.warning("round %d: the secure sum is of no use: %s", round.number, got)
            return self._lost(state), []
        after = dict(state) | now_counted(state, opened.clients, round.number)
        after |= self.means_of(state, found)
        for name in counts:
            after[name] = torch.from_numpy(np.rint(found[name]).astype(np.int64))
        beside, rows = self.found_beside(after, found, opened, round.turn)
        after |= beside
        after |= self._reshaped(after, round.turn, needed(self._least, people))
        opened_now = after[OPEN].sum(1).tolist()
        return after, rows + [
            MetricRow(round.number, "", y, "clusters", n) for y, n in enumerate(opened_now)
        ]

    def asked_beside(
        self, state: State, turn: Turn, least: int, gone: int
    ) -> tuple[dict[str, NDArray[np.bool_]], list[NDArray[np.int64]]]:
        """Return masks of what is asked for that is of no cluster, and how many are sure of it.

        Parameters
        ----------
        least : how many people must have something for sure.
        gone : how many of those who were counted last may be missing.
        """
        return {}, []

    def told_alone(self, state: State) -> dict[str, Part]:
        """Return what weak devices are sent, which are in no sum."""
        return {}

    def told_beside(self, state: State, turn: Turn) -> dict[str, Part]:
        """Return what everybody is sent besides."""
        return {}

    def found_beside(
        self, state: State, found: Mapping[str, Array], opened: Opened, turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Return the part of a state that is of no cluster, after a sum."""
        return {}, []

    def _lost(self, state: State) -> State:
        """Return the state after a lost sum: of the last count nobody is sure."""
        # Devices go by what they said in the round that was lost.
        gone = [
            *self.counts(),
            *self.counts_beside,
            *(name for name in state if name.endswith(KNOWN)),
        ]
        return counted_anew(state) | {name: torch.zeros_like(state[name]) for name in gone}

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client."""
        return not_counted(state, client)

    def _reshaped(self, state: State, turn: Turn, least: int) -> State:
        """Return the part of a state that is clusters, after those too small and too large.

        Nothing that was counted, or asked for, before a cluster changed is of who is in it then.
        """
        known = [own.name + KNOWN for layer in self.layout.layers for own in layer.rows]
        part, changed = reshaped(state, state[PEOPLE], turn, least)
        return part | {name: state[name] & ~changed[..., None] for name in known}

    #: Of its state, counts of no cluster, of which nobody is sure after a lost sum.
    counts_beside: tuple[str, ...] = ()
    #: Whether it asks for nothing, which is said once.
    _alone = False
