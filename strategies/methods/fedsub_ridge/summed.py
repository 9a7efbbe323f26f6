"""FedSub in closed form where the server learns sums alone, the server half.

It holds everybody's sums, and of each person whether they hold it. First it asks how many people
have each class, then for statistics of the classes that enough people have, then for equations.
Whoever is in the sums is not asked again: two sums that differ in one person would tell its
statistics. So who comes late is added when as many have come as a sum must be of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import torch

from fedsub_core.accounting import spent_epsilon
from fedsub_core.closed_form import summing
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.errors import RunError
from fedsub_core.method_parts import ridge_tensors as tensors
from fedsub_core.method_parts.ridge_tensors import (
    EVERYBODY,
    HELD,
    HOLDERS,
    INSIDE,
)
from fedsub_core.metrics import MetricRow
from fedsub_core.secure.quantise import BESIDE
from fedsub_core.secure.transcript import of_bundle
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.methods.fedsub_ridge.downloads import pooled_part
from strategies.methods.fedsub_ridge.everybody import over_all
from strategies.methods.fedsub_ridge.people import key
from strategies.methods.fedsub_ridge.questions import (
    ANSWERED,
    ASKED_LAST,
    COUNTED,
    INCLUDED,
    MEMBER,
    SPENT,
    answered,
    asked_in,
    member,
    noted,
    question,
)
from strategies.methods.fedsub_ridge.release import (
    RELEASES,
    SECRET,
    VERSIONS,
    drawn,
    parts,
    released,
    released_anew,
)
from strategies.methods.fedsub_ridge.strategy import FedSubRidgeServer
from strategies.rounds.context import (
    DrawnNoise,
    Opened,
    PromisedNoise,
    Sender,
    Start,
    SummedPeople,
    SumRequest,
)
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class SummedRidgeServer(FedSubRidgeServer):
    """State: ``everybody.gram``, ``everybody.cross``, ``pooled``, ``versions`` as without sums.

    Beside them what `questions.py` beside this file names; with noise what noise needs.
    """

    gains_classes = False

    def init(self, start: Start) -> State:
        """Return sums over nobody."""
        return super().init(start) | {
            ASKED_LAST: torch.zeros(start.model.classes, dtype=torch.int64),
            INCLUDED: torch.zeros(start.model.classes + 1, dtype=torch.int64),
            COUNTED: torch.zeros(3, dtype=torch.int64),
            ANSWERED: torch.zeros(1, dtype=torch.int64),
        }

    def wants_all(self, turn: Turn) -> bool:
        """Whoever were drawn for a round would wait for others as many to be added with."""
        return True

    # What is asked.

    def sum_request(self, state: State, round: Round, clients: Sequence[str]) -> SumRequest | None:
        """Return the sum that a round asks for; None: nothing is owed, or by too few."""
        asked = question(
            state, round, clients, self.settings.secure.secure_least, not self.hyper.noise
        )
        if asked is None:
            return None
        features, classes = prod(round.model.input_shape), round.model.classes
        numbers = summing.numbers(asked.kind, features, classes, tensors.equations(self.hyper))
        range = summing.range_of(asked.kind, classes)
        needed = not state[VERSIONS][0]
        # As devices name them (`fedsub_client/methods/fedsub_ridge_sums.py`).
        once = "statistics" if asked.kind == summing.STATISTICS else ""
        if asked.kind == summing.EQUATIONS:
            sums = released(state, self.hyper.noise)
            told = Bundle(tensors=self._told(state, sums, features) | asked.parts())
            once = f"equations of sums {of_bundle(told)[:16]}"
        return SumRequest(
            asked.clients, numbers + BESIDE, range, asked.opened_of, True, needed, asked, once
        )

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody what it was not sent yet, and ask those in the round's sum."""
        version = int(state[VERSIONS][1])
        members = {client: member(state, client) for client in clients}
        asked = asked_in(round) if round.in_sum else None
        sums = released(state, self.hyper.noise) if version else {}
        everybody: dict[int, dict[str, Part]] = {}
        found = []
        for client, one in members.items():
            tensors: dict[str, Part] = {}
            asks = asked if client in round.in_sum else None
            # Equations are of the sums that come with the question.
            if version and (version != one.sent or (asks and asks.kind == summing.EQUATIONS)):
                features = prod(round.held_by(client).input_shape)
                if features not in everybody:
                    everybody[features] = self._told(state, sums, features)
                held = np.array([max(one.round, 0), one.weight, 0], np.float32)
                inside = Floats(one.classes.astype(np.float32))
                tensors = {HELD: Floats(held), INSIDE: inside, **everybody[features]}
            if asks:
                tensors |= asks.parts()
            found.append(Bundle(version=version, tensors=tensors))
        return found

    def _told(self, state: State, sums: Mapping[int, Statistics], features: int) -> dict[str, Part]:
        """Return the part of a download that all with so many features share."""
        everybody = parts(EVERYBODY, over_all(sums, features))
        return {**everybody, **pooled_part(state, self.hyper.noise), **self._holders(state)}

    def promised_noise(self, state: State) -> PromisedNoise | None:
        """Return the noise on sums."""
        if not self.hyper.noise:
            return None
        return PromisedNoise({f"{self.card.name}.noise": self.hyper.noise}, int(state[SECRET]))

    def drawn_noise(self, before: State, after: State) -> list[DrawnNoise]:
        """Return the noise on a new release of the sums."""
        new = self.hyper.noise and int(after[RELEASES]) > int(before[RELEASES])
        return drawn(after, self.hyper.noise) if new else []

    # What comes of it.

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Accept what comes: a vector under masks, of which nothing can be said, or nothing."""

    def aggregate_sum(
        self, state: State, round: Round, opened: Opened | None, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Take what the round's sum says, and note who is in it and who has what was sent."""
        version, after = int(state[VERSIONS][1]), dict(state)
        for client, upload in uploads.items():
            one, sent = member(state, client), version
            if f"{EVERYBODY}.{tensors.GRAM}" not in round.sent[client].tensors:
                sent = one.sent if client in round.in_sum or upload.version == version else 0
            after |= noted(client, replace(one, sent=sent))
        if opened is not None:
            after |= self._taken(after, round, opened)
        elif (asked := asked_in(round)) is not None and asked.kind == summing.STATISTICS:
            # As many may be missed again: classes must be of as many more people.
            missed = len(asked.clients) - len(round.in_sum & uploads.keys())
            after[COUNTED] = torch.cat([state[COUNTED][:2], torch.tensor([missed])])
        if not self.hyper.noise:
            return after, []
        after |= released_anew(state, after)
        spent = spent_epsilon(self.hyper.noise, int(after[RELEASES]), self.hyper.noise_delta)
        return after, [MetricRow(round.number, "", None, "epsilon", spent)]

    def _taken(self, state: State, round: Round, opened: Opened) -> State:
        """Return the part of the state that changes with an opened sum."""
        asked = asked_in(round)
        assert asked is not None
        kind, total = asked.kind, opened.total
        of_sums, found = int(state[VERSIONS][0]), State()
        for client in sorted({*opened.clients, *opened.lost}):
            one = member(state, client)
            if kind == summing.CLASSES and total is not None and client not in opened.lost:
                one = replace(one, counted=round.number)
            elif kind == summing.STATISTICS:  # of no use or not: once
                weight = opened.levels.weight
                one = replace(one, round=SPENT, weight=weight, classes=asked.classes)
            found |= noted(client, one)
        if kind == summing.EQUATIONS:
            found |= {ANSWERED: torch.tensor([of_sums])}
        if total is None:
            return found
        return found | answered(state | found, round, opened, self.hyper)

    def fault(self, state: State, round: Round, opened: Opened) -> str:
        """Return why no samples lead to a sum; "" if some do."""
        assert opened.total is not None
        try:
            answered(state, round, opened, self.hyper)
        except ValueError as error:
            return str(error)
        return ""

    def summed_people(self, state: State, round: Round) -> SummedPeople:
        """Return the people in opened sums; nobody knows which of their samples are whose."""
        self._check_pooled(state)
        known = (
            member(state, name.partition("/")[2]) for name in state if name.startswith(f"{MEMBER}/")
        )
        inside = [one for one in known if one.round > 0]
        holders = tuple(
            sum(int(one.classes[y]) for one in inside) for y in range(len(state[ASKED_LAST]))
        )
        return SummedPeople(len(inside), holders)

    def with_nothing(self, state: State, client: str) -> State:
        """Return the state without a person: which samples sums hold of it, its device alone knows.

        So samples that it has are taken for new ones.
        """
        return {name: tensor for name, tensor in state.items() if name != key(MEMBER, client)}

    def without(self, state: State, client: str) -> State:
        """Return the state without what is known of a person whom the sums do not hold.

        Raises RunError if they do: nobody knows what to take out of them.
        """
        if member(state, client).round > 0:
            raise RunError(
                f"client {client!r}: fedsub-ridge with secure-aggregation: everybody's sums hold "
                "this person, and only its device knows what of them is its own. Begin a new run "
                "without the person, and delete this one"
            )
        return {name: tensor for name, tensor in state.items() if name != key(MEMBER, client)}

    def _holders(self, state: State) -> dict[str, Part]:
        """Return who has which of the classes in the sums; with noise on sums nothing."""
        if self.hyper.noise or not state[INCLUDED].any():
            return {}
        return {HOLDERS: Floats(state[INCLUDED].float().numpy())}
