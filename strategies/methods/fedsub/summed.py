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
from fedsub_core.secure import layout, slots
from fedsub_core.secure.layout import Array
from fedsub_core.secure.quantise import BESIDE
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part
from strategies.parts import sure_people as sure
from strategies.rounds.context import Addends, Opened, Sender, Start
from strategies.rounds.server_half import State
from strategies.rounds.strategy import PersonalizedStrategy

log = logging.getLogger("fedsub")

#: By layer, of which units the last sum said means; by rows, these.
KNOWN, MEANS = ".known", ".means"


class SummedFedSubStrategy(PersonalizedStrategy):
    """State: the last sum's counts and means, and who was in it.

    ``<layer>.used`` int64 [units], ``<layer>.known`` bool [units], ``<rows>.means`` float32 [units,
    width].
    """

    #: What the round asks for, as a download says it.
    _asked: Mapping[str, NDArray[np.bool_]] = {}

    def init(self, start: Start) -> State:
        """Return a state in which nothing is known."""
        state = sure.nobody_counted()
        for name in layout.counts(self.parts):
            state[name] = torch.zeros(self.parts[name][0], dtype=torch.int64)
        for layer in self._layers:
            state[layer.name + KNOWN] = torch.zeros(layer.units, dtype=torch.bool)
            for own in layer.rows:
                state[own.name + MEANS] = torch.zeros(layer.units, own.width)
        return state

    def addends(self, state: State, clients: Sequence[str], turn: Turn) -> Addends | None:
        """Return what is added up: counts of now, and what enough people have by the last count.

        Weak devices are in no sum: their rows have fewer numbers.
        """
        whole = tuple(client for client in clients if client not in self.narrow)
        secure, people, gone = self.settings.secure, len(whole), sure.absent(state, whole)
        least = sure.needed(secure.secure_least, people)
        have = {mask: count.numpy() - gone for mask, count in self.askable(state, turn).items()}
        self._asked = {mask: count >= least for mask, count in have.items()}
        fewest = np.concatenate([count[self._asked[mask]] for mask, count in have.items()])
        if turn.round == 2 and not fewest.size:  # said once
            log.warning("no unit is used by %d people for sure: nothing is fused", least)
        numbers = int(layout.asked_for(self.parts, self._asked).sum()) + BESIDE
        of = sure.opened_of(fewest, secure.secure_least, people)
        return Addends(whole, numbers, secure.secure_range, of, others=True)

    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Send means, and to those in the sum what it asks for.

        Weak devices get no rows: they train alone.
        """
        told, means = self.told(state, turn), dict[str, Part]()
        for layer in self._layers:
            known = state[layer.name + KNOWN]
            for own in layer.rows:
                rows = state[own.name + MEANS][known].numpy()
                means[own.name] = Floats.rows(known.numpy(), rows)
        asked, nothing = {name: Bits(mask) for name, mask in self._asked.items()}, dict[str, Part]()
        # By whether somebody is in the round's sum, and was in the one that counted.
        kinds = dict[tuple[bool, bool], Bundle]()
        for summed, was in product((False, True), repeat=2):
            counted = Floats(np.array([sure.counted_in(state), was], np.float32))
            tensors = {**told, **means, COUNTED: counted, **(asked if summed else nothing)}
            kinds[summed, was] = Bundle(tensors=tensors)
        return [
            Bundle(tensors=told)
            if client in self.narrow
            else kinds[client in self.in_sum, sure.was_counted(state, client)]
            for client in clients
        ]

    def check(self, state: State, sender: Sender, upload: Bundle) -> None:
        """Accept what comes: a vector under masks, of which nothing can be said, or nothing."""

    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Raise :class:`RunError`: this half goes by sums."""
        raise RunError(f"round {turn.round}: fedsub: got {len(uploads)} uploads, expected a sum")

    def aggregate_sum(
        self, state: State, opened: Opened | None, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Take means and counts; after a sum that is of no use nobody is sure of anything."""
        counts = layout.counts(self.parts)
        if opened is None or opened.total is None:
            return self._lost(state), []
        which, people = layout.asked_for(self.parts, self._asked), len(opened.clients)
        numbers = np.zeros(len(which))
        numbers[which] = slots.values(opened.total, opened.levels)
        found = layout.by_name(numbers, self.parts)
        every = np.rint(np.concatenate([found[name] for name in counts]))
        if every.max() > people or every.min() < 0:
            got = f"{every.min():g} to {every.max():g} people, expected 0 to {people}"
            log.warning("round %d: the secure sum is of no use: %s", turn.round, got)
            return self._lost(state), []
        after = dict(state) | sure.now_counted(state, opened.clients, turn.round)
        after |= {n: torch.from_numpy(np.rint(found[n]).astype(np.int64)) for n in counts}
        for layer in self._layers:
            who, classes = np.rint(found[layer.name + PEOPLE]).T
            # Of which units so many people, and classes of theirs, can be.
            fits = (self.settings.secure.secure_least <= who) & (who <= people)
            fits &= (who <= classes) & (classes <= self.model.classes * who)
            after[layer.name + KNOWN] = torch.from_numpy(fits)
            for own in layer.rows:
                mean = found[own.name] / np.where(fits, classes, np.inf)[:, None]
                after[own.name + MEANS] = torch.from_numpy(mean.astype(np.float32))
        beside, rows = self.found_beside(after, found, opened, turn)
        return after | beside, rows

    def askable(self, state: State, turn: Turn) -> dict[str, Tensor]:
        """Return by mask how many people have each entry by the last count, int64."""
        return {layer.name + ASKED: state[layer.name + USED] for layer in self._layers}

    def told(self, state: State, turn: Turn) -> dict[str, Part]:
        """Return what everybody is sent beside means, weak devices, too."""
        return {}

    def found_beside(
        self, state: State, found: Mapping[str, Array], opened: Opened, turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Return the part of a state that is of no unit, after a sum."""
        return {}, []

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client."""
        return sure.not_counted(state, client)

    @property
    def parts(self) -> layout.Parts:
        """What a person adds."""
        return parts_of_units(self.model, self.hyper)

    @property
    def _layers(self) -> Sequence[LayerWithUnits]:
        return self.model.affine[: self.hyper.depth or None]

    def _lost(self, state: State) -> State:
        # Devices go by what they said in the round that was lost.
        gone = [*layout.counts(self.parts), *(layer.name + KNOWN for layer in self._layers)]
        return sure.counted_anew(state) | {name: torch.zeros_like(state[name]) for name in gone}
