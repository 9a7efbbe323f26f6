"""FedSub in closed form, the server half: adds up, says who is like whom, sends what is new."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import torch

from fedsub_core.accounting import spent_epsilon
from fedsub_core.closed_form.possible import FAILED_EXPLAINED, MOST_EXPLAINED
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.method_parts import ridge_tensors as tensors
from fedsub_core.method_parts.ridge_tensors import EQUATIONS, GRAM, POOLED
from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedsub_ridge.astray import astray, impossible
from strategies.methods.fedsub_ridge.checks import check_equations, check_sums
from strategies.methods.fedsub_ridge.downloads import pooled_anew, sent_to
from strategies.methods.fedsub_ridge.everybody import nobodys, summed_anew, without_sums
from strategies.methods.fedsub_ridge.everybody import noted as sums_of_all
from strategies.methods.fedsub_ridge.people import (
    equations_noted,
    facts,
    facts_of,
    held,
    noted,
    people,
    sums_noted,
    width,
    with_classes,
)
from strategies.methods.fedsub_ridge.pooling import counts_as
from strategies.methods.fedsub_ridge.release import (
    RELEASES,
    SECRET,
    VERSIONS,
    ledger,
    released_anew,
)
from strategies.rounds.context import Sender, Start, SummedPeople
from strategies.rounds.recovery import left_out_rows
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State

log = logging.getLogger("fedsub")


class FedSubRidgeServer(ServerHalf):
    """State: what people sent (`people.py` beside this file), and what follows from it.

    ``everybody.gram`` and ``everybody.cross`` int64: sums over people, apart for each number of
    features that people have (`everybody.py`). ``pooled`` float64: their equations. ``versions``
    int64 [2]: a name of the sums' content, and of all that is sent. With noise on sums its secret
    and the number of releases, int64 [1] each.
    """

    keeps, keeps_people, gains_classes = frozenset({GRAM}), True, True

    def init(self, start: Start) -> State:
        """Return sums over nobody."""
        features = prod(start.model.input_shape)
        state = sums_of_all(nobodys(features, start.model.classes), features) | {
            POOLED: torch.zeros(tensors.equations(self.hyper), dtype=torch.float64),
            VERSIONS: torch.zeros(2, dtype=torch.int64),
        }
        if self.hyper.noise:
            seed = self.settings.rounds.seed if start.simulated else None
            state |= ledger(self.hyper, seed)
        return state

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody what it was not sent yet, and always what the server holds of it."""
        _, version = state[VERSIONS].tolist()
        known = {client: facts(state, client) for client in clients}
        new = [c for c, one in known.items() if version != (0 if one is None else one.sent)]
        tensors = sent_to(state, round, new, self.hyper, self.most_examples)
        return [
            Bundle(version=0 if one is None else one.version, tensors=tensors.get(client, {}))
            for client, one in known.items()
        ]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """See :mod:`strategies.methods.fedsub_ridge.checks`."""
        refuse = sender.refuse
        if upload.tensors.keys() - {EQUATIONS}:
            check_sums(upload, refuse, self._fading)
        elif facts(state, sender.client) is None:
            raise refuse("sums", "none", "a person's own in the first answer")
        if EQUATIONS in upload.tensors:
            classes = round.model.classes
            check_equations(upload, tensors.candidates(self.hyper), classes, refuse)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Put what came in the place of what the same people sent before."""
        sums, everything = state[VERSIONS].tolist()
        after, answers, left_out = dict(state), False, list[MetricRow]()
        for client, upload in uploads.items():
            one = facts(state, client)
            if GRAM in upload.tensors:
                after |= sums_noted(client, upload)
                one = facts_of(upload, one)
            assert one is not None  # checked
            # For sums that a person has answered its equations stay: the last digits of new ones
            # would be news for everybody.
            new = GRAM in upload.tensors or one.answered != sums
            if EQUATIONS in upload.tensors and sums and new:
                after |= equations_noted(client, upload)
                one, answers = replace(one, answered=sums), True
            # Who sends sums gets all sums next: its samples are new, or its state was lost.
            sent = 0 if GRAM in upload.tensors else everything
            after |= noted(client, replace(one, sent=sent))
        anew = any(GRAM in upload.tensors for upload in uploads.values())
        if anew:
            after = summed_anew(state, after, self.most_examples)
            found = self._misleading(after, round.number)
            after = without_sums(after, found, self.most_examples)
            left_out = left_out_rows(round.number, found)
        if anew or answers:
            after = after | pooled_anew(after, self.hyper, self.most_examples)
        if not self.hyper.noise:
            return after, left_out
        after |= released_anew(state, after)
        spent = spent_epsilon(self.hyper.noise, int(after[RELEASES]), self.hyper.noise_delta)
        return after, [*left_out, MetricRow(round.number, "", None, "epsilon", spent)]

    def without(self, state: State, client: str) -> State:
        """Return the state without a person's sums: others' are the bits of never having had it.

        What others said of their candidates, which its samples had a part in, is replaced when
        they get the new sums.
        """
        left = without_sums(state, [client], self.most_examples)
        left |= pooled_anew(left, self.hyper, self.most_examples)
        return left | (released_anew(state, left) if self.hyper.noise else {})

    def astray(self, state: State) -> list[str]:
        """Return the people whose sums no samples can have led to, by the heads of everybody's."""
        return astray(state, self._counts_as(state), FAILED_EXPLAINED)

    def resumed(self, state: State, turn: Turn) -> tuple[State, list[str]]:
        """Return the state without sums that an older release took and no samples led to."""
        for client, error in impossible(state, turn, self._fading).items():
            log.warning("round %d: the sums that it had sent are taken out: %s", turn.round, error)
            state = self.without(state, client)
        found = self._misleading(state, turn.round)
        for client in found:
            state = self.without(state, client)
        return state, found

    def taken_over(self, state: State, before: Start, now: Start) -> State:
        """Return the state with sums of further classes, of which nobody has a sample.

        Raises ConfigError; as of any method; and of sums with noise, whose releases are counted for
        one run and one list of classes.
        """
        self.check_gains(before.model.classes, now.model.classes)
        if self.hyper.noise:
            raise ConfigError(
                f"fedsub-ridge: noise: got sums with noise {self.hyper.noise:g} of a run that is "
                "gone on from, expected none: what noise costs was counted for that run. Start anew"
            )
        return with_classes(state, nobodys(prod(before.model.input_shape), now.model.classes))

    def standardised_anew(self, state: State, start: Start) -> tuple[State, str]:
        """Return sums over nobody: whoever comes next sends its own again."""
        return self.gone_back(self.init(start), state), "everybody's sums and equations"

    def heard_of(self, state: State) -> list[str]:
        """Return the people whose sums the state holds."""
        return people(state)

    def summed_people(self, state: State, round: Round) -> SummedPeople:
        """Return the people in the sums of all features that the run has."""
        self._check_pooled(state)
        features = prod(round.model.input_shape)
        inside = [c for c in people(state) if width(state, c) >= features]
        had = [(held(state, c).class_sums[:, 0] > 0).tolist() for c in inside]
        holders = tuple(map(sum, zip(*had, strict=True)))
        return SummedPeople(len(inside), holders, frozenset(people(state)))

    def _check_pooled(self, state: State) -> None:
        """Refuse a run too short for everybody's equations; with noise there are none."""
        if not (self.hyper.noise or state[POOLED].any()):
            raise RunError(
                "fedsub-ridge: got a run without everybody's equations, expected three rounds at "
                "least, or four of secure sums: by them newcomers mix heads"
            )

    def with_nothing(self, state: State, client: str) -> State:
        """Return the state by which a person's device is sent all sums."""
        one = facts(state, client)
        return state if one is None else state | noted(client, replace(one, sent=0))

    def with_other_samples(self, state: State, client: str) -> State:
        """Return the state without a person; raises ConfigError where sums are released with noise.

        What noise costs is counted for the releases of the run.
        """
        if self.hyper.noise:
            raise ConfigError(
                f"client {client!r}: got samples that replace others in sums with noise "
                f"{self.hyper.noise:g}, expected some that are added: sums without the others "
                "would be one more release, which nobody has counted"
            )
        return self.without(state, client)

    def _misleading(self, state: State, round: int) -> list[str]:
        """Return the people whose sums would lead all others astray; they are to be left out."""
        found = astray(state, self._counts_as(state), MOST_EXPLAINED)
        if found:
            log.warning(
                "round %d: left out from now on, as heads that are solved with their sums say far "
                "more than samples could lead to: %s",
                round,
                ", ".join(found),
            )
        return found

    @property
    def _fading(self) -> bool:
        # Of a target each sample counts in part for either end.
        return bool(self.hyper.forgetting < 1) or self.settings.training.regression

    def gone_back(self, state: State, left: State) -> State:
        """Return an earlier state: sums that were released with noise since then stay counted.

        So does the secret: sums that were released before get the noise that they had.
        """
        kept = (SECRET, RELEASES) if self.hyper.noise else ()
        return state | {name: left[name] for name in kept}

    def _counts_as(self, state: State) -> dict[str, int]:
        return counts_as(state, self.most_examples)

    @property
    def most_examples(self) -> float:
        """Of everybody's median, what one person counts at most; with noise 0, which is no bound.

        A median of others' samples moves with each sample of theirs, and with it all that it
        bounds: noise that hid that, too, would be many times as large.
        """
        return 0.0 if self.hyper.noise else self.settings.robust.most_examples
