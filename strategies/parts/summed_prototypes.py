"""Prototypes where the server learns sums alone: of each class a sum over enough people.

Each round counts how many people have each class, beside what it adds up. By that the next round
asks for prototypes (:mod:`strategies.parts.counted_people`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import torch

from fedsub_core.method_parts.prototypes import ASKED, PROTOTYPES
from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.secure import slots
from fedsub_core.secure import uploads as vectors
from fedsub_core.wire.bundles import Bundle, Declaration, Floats
from strategies.parts.counted_people import (
    absent,
    counted_in,
    needed,
    nobody_counted,
    not_counted,
    now_counted,
    opened_of,
)
from strategies.rounds.context import Addends, Opened, Sender
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State

#: How many people had each class, int64 [classes].
HOLDERS = "holders"

log = logging.getLogger("fedsub")


def no_holders(model: Model) -> State:
    """Return the part of a state that says who has which class, before anybody was counted."""
    return nobody_counted() | {HOLDERS: torch.zeros(model.classes, dtype=torch.int64)}


class SummedPrototypes(ServerHalf):
    """What server halves of prototypes share whose uploads are summed.

    State: as without sums, and what this file's head names.
    """

    def addends(self, state: State, round: Round, clients: Sequence[str]) -> Addends | None:
        """Return what is added up: bodies, who has which class, and prototypes that are asked for.

        The sum is opened only if enough people remain in each of these classes.
        """
        secure, people = self.settings.secure, len(clients)
        sure = state[HOLDERS].numpy() - absent(state, clients)
        least = needed(secure.secure_least, people)
        asked = sure >= least
        left_out = int((~asked).sum()) if counted_in(state) else 0
        if left_out:
            round.log.warning(
                "no prototypes of %d classes, which fewer than %d people have for sure",
                left_out,
                least,
            )
        fewest = opened_of(sure[asked], secure.secure_least, people)
        numbers = vectors.length(_body_sent(round)) + slots.numbers(*_slots(round))
        return Addends(tuple(clients), numbers, secure.secure_range, fewest, request=asked)

    def asking(self, round: Round, clients: Sequence[str], sent: Sequence[Bundle]) -> list[Bundle]:
        """Return downloads that say to those in the round's sum what is asked for."""
        if round.requested is None or not round.in_sum:
            return list(sent)
        asked = {ASKED: Floats(round.requested.request.astype(np.float32))}
        return [
            Bundle(tensors={**one.tensors, **asked}) if client in round.in_sum else one
            for client, one in zip(clients, sent, strict=True)
        ]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Accept what comes: a vector under masks, of which nothing can be said."""

    def aggregate_sum(
        self, state: State, round: Round, opened: Opened | None, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Take the mean of bodies, and of each class that was asked for the mean of prototypes."""
        if opened is None or opened.total is None or round.requested is None:
            return state, []
        try:
            total, said = slots.in_sum(
                opened.total, opened.levels, *_slots(round), len(opened.clients)
            )
        except ValueError as error:
            log.warning("round %d: the secure sum is of no use: %s", round.number, error)
            return state, []
        # Who lost a class since it was counted may leave fewer people in a sum than were sure.
        shown = round.requested.request & (said.people >= self.settings.secure.secure_least)
        means = said.rows[shown] / np.maximum(said.people[shown, None], 1)
        received = round.sent[min(opened.clients)]  # the same to all
        one = vectors.mean_upload(total, received, _body_sent(round))
        prototypes = {PROTOTYPES: Floats.rows(shown, means.astype(np.float32))}
        mean = Bundle(examples=max(1, total.weight), tensors={**one.tensors, **prototypes})
        after, _ = self.aggregate(state, round, {"": mean})
        holders = {HOLDERS: torch.from_numpy(said.people)}
        return after | now_counted(state, opened.clients, round.number) | holders, []

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client."""
        return not_counted(state, client)


def _body_sent(round: Round) -> Declaration:
    return {name: one for name, one in round.sends.items() if name != PROTOTYPES}


def _slots(round: Round) -> tuple[int, int]:
    """Return how many classes have a row, and of how many numbers each is."""
    return round.model.classes, prod(round.sends[PROTOTYPES].shape[1:])
