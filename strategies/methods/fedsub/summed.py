"""FedSub where the server learns sums alone, the server half: everybody's means of units."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.errors import RunError
from fedsub_core.methods.fedsub_sums import ASKED, COUNTED, PEOPLE, USED, parts_of_units
from fedsub_core.metrics import MetricRow
from fedsub_core.models.architecture import LayerWithUnits
from fedsub_core.models.model import Model
from fedsub_core.secure import layout, slots
from fedsub_core.secure.layout import Array
from fedsub_core.secure.quantise import BESIDE
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part
from strategies.parts import counted_people as sure
from strategies.rounds.context import Addends, Opened, Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State

log = logging.getLogger("fedsub")

#: By layer, of which units the last sum said means; by rows, these.
KNOWN, MEANS = ".known", ".means"


class SummedFedSubServer(ServerHalf):
    """State: the last sum's counts and means, and who was in it.

    ``<layer>.used`` int64 [units], ``<layer>.known`` bool [units], ``<rows>.means`` float32 [units,
    width].
    """

    def init(self, start: Start) -> State:
        """Return a state in which nothing is known."""
        state, parts = sure.nobody_counted(), self.parts(start.model)
        for name in layout.counts(parts):
            state[name] = torch.zeros(parts[name][0], dtype=torch.int64)
        for layer in self._layers(start.model):
            state[layer.name + KNOWN] = torch.zeros(layer.units, dtype=torch.bool)
            for own in layer.rows:
                state[own.name + MEANS] = torch.zeros(layer.units, own.width)
        return state

    def addends(self, state: State, round: Round, clients: Sequence[str]) -> Addends | None:
        """Return what is added up: counts of now, and what enough people have by the last count.

        Weak devices are in no sum: their rows have fewer numbers.
        """
        whole = tuple(client for client in clients if client not in round.narrow)
        secure, people, gone = self.settings.secure, len(whole), sure.absent(state, whole)
        least = sure.needed(secure.secure_least, people)
        have = {mask: count.numpy() - gone for mask, count in self.askable(state, round).items()}
        asked = {mask: count >= least for mask, count in have.items()}
        fewest = np.concatenate([count[asked[mask]] for mask, count in have.items()])
        if round.number == 2 and not fewest.size:
            round.log.warning("no unit is used by %d people for sure: nothing is fused", least)
        numbers = int(layout.asked_for(self.parts(round.model), asked).sum()) + BESIDE
        of = sure.opened_of(fewest, secure.secure_least, people)
        return Addends(whole, numbers, secure.secure_range, of, others=True, request=asked)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send means, and to those in the sum what it asks for.

        Weak devices get no rows: they train alone.
        """
        told, means = self.told(state, round), dict[str, Part]()
        for layer in self._layers(round.model):
            known = state[layer.name + KNOWN]
            for own in layer.rows:
                rows = state[own.name + MEANS][known].numpy()
                means[own.name] = Floats.rows(known.numpy(), rows)
        asked, nothing = {name: Bits(m) for name, m in _asked(round).items()}, dict[str, Part]()
        # By whether somebody is in the round's sum, and was in the one that counted.
        kinds = dict[tuple[bool, bool], Bundle]()
        for summed, was in product((False, True), repeat=2):
            counted = Floats(np.array([sure.counted_in(state), was], np.float32))
            tensors = {**told, **means, COUNTED: counted, **(asked if summed else nothing)}
            kinds[summed, was] = Bundle(tensors=tensors)
        return [
            Bundle(tensors=told)
            if client in round.narrow
            else kinds[client in round.in_sum, sure.was_counted(state, client)]
            for client in clients
        ]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Accept what comes: a vector under masks, of which nothing can be said, or nothing."""

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Raise :class:`RunError`: this half goes by sums."""
        raise RunError(f"round {round.number}: fedsub: got {len(uploads)} uploads, expected a sum")

    def aggregate_sum(
        self, state: State, round: Round, opened: Opened | None, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Take means and counts; after a sum that is of no use nobody is sure of anything."""
        parts = self.parts(round.model)
        counts = layout.counts(parts)
        if opened is None or opened.total is None:
            return self._lost(state, round), []
        which, people = layout.asked_for(parts, _asked(round)), len(opened.clients)
        numbers = np.zeros(len(which))
        numbers[which] = slots.values(opened.total, opened.levels)
        found = layout.by_name(numbers, parts)
        every = np.rint(np.concatenate([found[name] for name in counts]))
        if every.max() > people or every.min() < 0:
            got = f"{every.min():g} to {every.max():g} people, expected 0 to {people}"
            log.warning("round %d: the secure sum is of no use: %s", round.number, got)
            return self._lost(state, round), []
        after = dict(state) | sure.now_counted(state, opened.clients, round.number)
        after |= {n: torch.from_numpy(np.rint(found[n]).astype(np.int64)) for n in counts}
        for layer in self._layers(round.model):
            who, classes = np.rint(found[layer.name + PEOPLE]).T
            # Of which units so many people, and classes of theirs, can be.
            fits = (self.settings.secure.secure_least <= who) & (who <= people)
            fits &= (who <= classes) & (classes <= round.model.classes * who)
            after[layer.name + KNOWN] = torch.from_numpy(fits)
            for own in layer.rows:
                mean = found[own.name] / np.where(fits, classes, np.inf)[:, None]
                after[own.name + MEANS] = torch.from_numpy(mean.astype(np.float32))
        beside, rows = self.found_beside(after, round, found, opened)
        return after | beside, rows

    def askable(self, state: State, round: Round) -> dict[str, Tensor]:
        """Return by mask how many people have each entry by the last count, int64."""
        layers = self._layers(round.model)
        return {layer.name + ASKED: state[layer.name + USED] for layer in layers}

    def told(self, state: State, round: Round) -> dict[str, Part]:
        """Return what everybody is sent beside means, weak devices, too."""
        return {}

    def found_beside(
        self, state: State, round: Round, found: Mapping[str, Array], opened: Opened
    ) -> tuple[State, list[MetricRow]]:
        """Return the part of a state that is of no unit, after a sum."""
        return {}, []

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client."""
        return sure.not_counted(state, client)

    def parts(self, model: Model) -> layout.Parts:
        """Return what a person adds."""
        return parts_of_units(model, self.hyper)

    def _layers(self, model: Model) -> Sequence[LayerWithUnits]:
        return model.affine[: self.hyper.depth or None]

    def _lost(self, state: State, round: Round) -> State:
        # Devices go by what they said in the round that was lost.
        layers = self._layers(round.model)
        gone = [*layout.counts(self.parts(round.model)), *(one.name + KNOWN for one in layers)]
        return sure.counted_anew(state) | {name: torch.zeros_like(state[name]) for name in gone}


def _asked(round: Round) -> Mapping[str, NDArray[np.bool_]]:
    """Return what a round asks for, as a download says it."""
    return {} if round.requested is None else round.requested.request
