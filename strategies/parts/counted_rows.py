"""Sums of rows by entries, such as units or classes, of which enough people are sure to have each.

Each round's sum counts how many people have an entry. The next round asks only for entries that
enough people have for sure, even if some go silent, and is opened only if they still do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedsub_core import addend_numbers, addends
from fedsub_core.addend_numbers import Array, Bools
from fedsub_core.addends import Addend
from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.secure import slots, uploads
from fedsub_core.wire.bundles import Bits, Bundle, Declaration
from strategies.rounds.context import Opened, Sender, Start, SumRequest
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State

#: Which part of a sum's people may go silent, and it is opened nevertheless.
SILENT = 0.3
#: The round of the sum that counted last, and of how many people it was, int64 [2]; and of each
#: person: in which round's sum it was last, int64 [1].
COUNTED, COUNTED_IN = "counted", "counted.in/"


class CountedRows(ServerHalf):
    """What server halves share that go by such sums: what is added up stands on the card.

    State beside the method's: the counts by their names, int64, and who was counted.
    """

    #: Whether those who are in no sum are sent their downloads, too.
    others = False
    gains_classes = True

    def adds(self, model: Model) -> Sequence[Addend]:
        """Return the addends of a person."""
        assert self.card.sums is not None and self.card.sums.adds is not None
        return self.card.sums.adds(model, self.hyper)

    def nobody_counted(self, model: Model) -> State:
        """Return the part of a state that says who was counted, before anybody was."""
        counts = addends.counting(self.adds(model))
        none = {count.name: torch.zeros(count.shape, dtype=torch.int64) for count in counts}
        return none | {COUNTED: torch.zeros(2, dtype=torch.int64)}

    def taken_over(self, state: State, before: Start, now: Start) -> State:
        """Return the state with counts of further classes, which nobody had when counted."""
        counted = {name: tensor for name, tensor in state.items() if name.startswith(COUNTED_IN)}
        rest = {name: tensor for name, tensor in state.items() if name not in counted}
        return super().taken_over(rest, before, now) | counted

    def sum_request(self, state: State, round: Round, clients: Sequence[str]) -> SumRequest | None:
        """Return the sum of counts of now, and of rows that enough people had by the last count.

        Weak devices are in no sum: their rows have fewer numbers.
        """
        whole = tuple(client for client in clients if client not in round.narrow)
        secure, people = self.settings.secure, len(whole)
        # Each who was counted and is absent may have any entry.
        absent = int(state[COUNTED][1]) - sum(was_counted(state, client) for client in whole)
        sure = {mask: n.numpy() - absent for mask, n in self.askable(state, round).items()}
        least = secure.secure_least + int(SILENT * people)
        asked = {mask: count >= least for mask, count in sure.items()}
        self.warn(state, round, asked, least)
        fewest = min((int(n[asked[m]].min()) for m, n in sure.items() if asked[m].any()), default=0)
        opened_of = people - (fewest - secure.secure_least) if fewest else 0
        numbers = int(addend_numbers.asked_for(self.adds(round.model), asked).sum())
        numbers += uploads.length(self._weighted(round))
        return SumRequest(
            whole, numbers, secure.secure_range, opened_of, others=self.others, detail=asked
        )

    def asking(self, round: Round, clients: Sequence[str], sent: Sequence[Bundle]) -> list[Bundle]:
        """Return downloads that say to those in the round's sum what is asked for.

        `sent` : what the method sends; bundles that are the same stay so.
        """
        asked = {mask: Bits(which) for mask, which in requested(round).items()}
        asks = dict[int, Bundle]()
        for bundle in sent:
            if id(bundle) not in asks:
                asks[id(bundle)] = replace(bundle, tensors={**bundle.tensors, **asked})
        return [
            asks[id(bundle)] if client in round.in_sum else bundle
            for client, bundle in zip(clients, sent, strict=True)
        ]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Accept what comes: a vector under masks, of which nothing can be said, or nothing."""

    def aggregate_sum(
        self, state: State, round: Round, opened: Opened | None, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Take the counts of a sum, and let the method take its rows."""
        if opened is None or opened.total is None or round.requested is None:
            return self.lost(state, round), []
        people, totals = len(opened.clients), self._totals(round, opened)
        after = state | {
            count.name: torch.from_numpy(np.rint(totals[count.name]).astype(np.int64))
            for count in addends.counting(self.adds(round.model))
        }
        after |= {COUNTED_IN + client: torch.tensor([round.number]) for client in opened.clients}
        after[COUNTED] = torch.tensor([round.number, people])
        return self.taken(after, round, opened, totals)

    def fault(self, state: State, round: Round, opened: Opened) -> str:
        """Return why nobody counts as a sum says; "" if people may."""
        people, totals = len(opened.clients), self._totals(round, opened)
        counts = [totals[count.name] for count in addends.counting(self.adds(round.model))]
        every = np.rint(np.concatenate(counts))
        if every.max() <= people and every.min() >= 0:
            return ""
        return f"{every.min():g} to {every.max():g} people, expected 0 to {people}"

    def _totals(self, round: Round, opened: Opened) -> Mapping[str, Array]:
        """Return a sum's numbers in which each person counts once, by addend."""
        assert opened.total is not None
        adds = self.adds(round.model)
        which = addend_numbers.asked_for(adds, requested(round))
        numbers = np.zeros(len(which))
        before = len(opened.total.sum) - int(which.sum())
        numbers[which] = slots.in_sum(opened.total, opened.levels, before)
        return addend_numbers.by_name(numbers, adds)

    @abstractmethod
    def taken(
        self, state: State, round: Round, opened: Opened, totals: Mapping[str, Array]
    ) -> tuple[State, list[MetricRow]]:
        """Return a state, in which the sum is counted, with what the method makes of the sum.

        `totals` : sums over people, by addend; of entries that were not asked for 0.
        """

    def moved(self, round: Round, opened: Opened) -> Bundle:
        """Return the upload of one person who moved as the mean by samples in a sum did."""
        assert opened.total is not None
        received = round.sent[min(opened.clients)]  # the same to all
        return uploads.mean_upload(opened.total, received, self._weighted(round))

    def askable(self, state: State, round: Round) -> dict[str, Tensor]:
        """Return by mask how many people have each entry by the last count, int64."""
        counts = addends.counting(self.adds(round.model))
        return {count.counts: state[count.name] for count in counts}

    def warn(self, state: State, round: Round, asked: Mapping[str, Bools], least: int) -> None:
        """Log what is not asked for, because fewer than `least` people have it for sure."""

    def lost(self, state: State, round: Round) -> State:
        """Return the state after a sum of no use; here it stays."""
        return state

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client: in which sum it was last."""
        return {name: tensor for name, tensor in state.items() if name != COUNTED_IN + client}

    def counted_anew(self, state: State, model: Model) -> State:
        """Return a state as if nobody had been counted yet."""
        kept = {name: tensor for name, tensor in state.items() if not name.startswith(COUNTED_IN)}
        return kept | self.nobody_counted(model)

    def _weighted(self, round: Round) -> Declaration:
        weighted = [added.name for added in self.adds(round.model) if added.weighted]
        return {name: round.sends[name] for name in weighted}


def requested(round: Round) -> Mapping[str, Bools]:
    """Return the entries that a round asks for, by mask, as a download says it."""
    return {} if round.requested is None else round.requested.detail


def was_counted(state: State, client: str) -> bool:
    """Return whether somebody was in the sum that counted last."""
    round, last = int(state[COUNTED][0]), state.get(COUNTED_IN + client)
    return round > 0 and last is not None and int(last) == round


def ever_counted(state: State) -> int:
    """Return how many people were in a sum since people were last counted anew."""
    return sum(name.startswith(COUNTED_IN) for name in state)
