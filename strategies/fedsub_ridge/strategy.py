"""FedSub in closed form, the server half: adds up, says who is like whom, sends what is new."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.closed_form.noise import noisy, spent_epsilon
from fedsub_core.closed_form.sending import Portable
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.methods import fedsub_ridge as card
from fedsub_core.methods.fedsub_ridge import CROSS, EQUATIONS, EVERYBODY, GRAM, HELD, POOLED
from fedsub_core.metrics import MetricRow
from fedsub_core.models.chain import Model
from fedsub_core.seeds import derive_seed
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Dense, Part
from strategies.fedsub_ridge.checks import check_equations, check_sums
from strategies.fedsub_ridge.groups import members
from strategies.fedsub_ridge.people import (
    Facts,
    came,
    equations_noted,
    facts,
    noted,
    people,
    sums_noted,
)
from strategies.fedsub_ridge.people import without as without_person
from strategies.fedsub_ridge.pooling import counts_as, pooled, resummed, sum_over
from strategies.rounds.server_half import State
from strategies.rounds.strategy import PersonalizedStrategy

VERSIONS = "versions"
#: What noise follows from, beside the sums' name: nobody's who gets sums; and how often any were
#: released with noise.
SECRET, RELEASES = "noise.secret", "noise.releases"


class FedSubRidgeStrategy(PersonalizedStrategy):
    """State: what people sent (:mod:`strategies.fedsub_ridge.people`), and what follows from it.

    ``everybody.gram`` and ``everybody.cross`` int64: sums over people. ``pooled`` float64: their
    equations. ``versions`` int64 [2]: a name of the sums' content, and of all that is sent. With
    noise on sums its secret and the number of releases, int64 [1] each.
    """

    def init(self, model: Model) -> State:
        """Return sums over nobody."""
        shapes = {name: one.shape for name, one in card.sums_of(EVERYBODY, model).items()}
        gram, cross = f"{EVERYBODY}.{GRAM}", f"{EVERYBODY}.{CROSS}"
        return {
            gram: torch.zeros(shapes[gram], dtype=torch.int64),
            cross: torch.zeros(shapes[cross], dtype=torch.int64),
            POOLED: torch.zeros(card.equations(self.hyper), dtype=torch.float64),
            VERSIONS: torch.zeros(2, dtype=torch.int64),
            **(self._ledger() if self.hyper.noise else {}),
        }

    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Send everybody what it was not sent yet, and always what the server holds of it."""
        _, version = state[VERSIONS].tolist()
        known = {client: facts(state, client) for client in clients}
        new = [c for c, one in known.items() if version != (0 if one is None else one.sent)]
        tensors = self._tensors(state, new) if new else {}
        return [
            Bundle(version=0 if one is None else one.version, tensors=tensors.get(client, {}))
            for client, one in known.items()
        ]

    def check(self, state: State, client: str, upload: Bundle) -> None:
        """See :mod:`strategies.fedsub_ridge.checks`."""
        refuse = partial(self.refuse, client)
        if upload.tensors.keys() - {EQUATIONS}:
            check_sums(upload, refuse)
        elif facts(state, client) is None:
            raise refuse("sums", "none", "a person's own in the first answer")
        if EQUATIONS in upload.tensors:
            classes = self.model.classes
            check_equations(upload, card.candidates(self.hyper), classes, refuse)

    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Put what came in the place of what the same people sent before."""
        sums, everything = state[VERSIONS].tolist()
        after, answers = dict(state), False
        for client, upload in uploads.items():
            one = facts(state, client)
            if GRAM in upload.tensors:
                after |= sums_noted(client, upload)
                one = _facts(upload, one or Facts())
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
            after |= self._sums(state, after)
        after = after | self._pooled(after) if anew or answers else after
        if not self.hyper.noise:
            return after, []
        after |= _released_anew(state, after)
        spent = spent_epsilon(self.hyper.noise, int(after[RELEASES]), self.hyper.noise_delta)
        return after, [MetricRow(turn.round, "", None, "epsilon", spent)]

    def without(self, state: State, client: str) -> State:
        """Return the state without a person's sums: others' are the bits of never having had it.

        What others said of their candidates, which its samples had a part in, is replaced when
        they get the new sums.
        """
        left = without_person(state, client)
        left |= self._sums(state, left)
        left |= self._pooled(left)
        return left | (_released_anew(state, left) if self.hyper.noise else {})

    def _sums(self, before: State, after: State) -> State:
        """Return the part of the state that is everybody's sums, after some people's changed."""
        most = self.settings.robust.most_examples
        everybody = resummed(self._everybody(before), before, after, most)
        gram, cross = (torch.from_numpy(one) for one in (everybody.gram, everybody.cross))
        return {f"{EVERYBODY}.{GRAM}": gram, f"{EVERYBODY}.{CROSS}": cross}

    def _pooled(self, state: State) -> State:
        """Return the part of the state that is everybody's equations, and the names of it all."""
        size, count = card.equations(self.hyper), card.candidates(self.hyper)
        mean = torch.from_numpy(pooled(state, self._counts_as(state), count, size))
        sums = self._everybody(state)
        of_sums = _name(sums.gram, sums.cross) if people(state) else 0
        of_all = _name(np.array(of_sums), mean.numpy()) if of_sums else 0
        if self.hyper.noise:  # equations stay on the server, so new ones are no news
            of_all = of_sums
        return {POOLED: mean, VERSIONS: torch.tensor([of_sums, of_all])}

    def _tensors(self, state: State, clients: Sequence[str]) -> dict[str, dict[str, Part]]:
        """Return all that there is for each of `clients`."""
        counted, everybody = self._counts_as(state), self._everybody(state)
        shared = _parts(EVERYBODY, self._released(state, everybody, EVERYBODY))
        if state[POOLED].any() and not self.hyper.noise:
            shared[POOLED] = Dense(state[POOLED].float().numpy())
        groups = members(state, self.hyper)
        # Members of one group are sent the same arrays.
        sums: dict[tuple[str, ...], dict[str, Part]] = {}
        found = {}
        for client in clients:
            one = facts(state, client)
            held = (0, 0) if one is None else (one.samples, counted[client])
            own = {HELD: Dense(np.array(held, np.float32)), **shared}
            for i, group in enumerate(groups.get(client, ())):
                if not group:
                    continue
                if group not in sums:
                    theirs = sum_over(state, group, counted, self._everybody(state))
                    sums[group] = _parts("", self._released(state, theirs, "\n".join(group)))
                own |= {f"group{i}{name}": part for name, part in sums[group].items()}
            found[client] = own
        return found

    def _ledger(self) -> State:
        """Return what noise needs: a secret of the server's, in a simulation the run's seed."""
        spent_epsilon(self.hyper.noise, 1, self.hyper.noise_delta)  # refused before the first round
        simulated = self.population.registry.simulated
        secret = self.settings.rounds.seed if simulated else secrets.randbits(62)
        return {SECRET: torch.tensor([secret]), RELEASES: torch.zeros(1, dtype=torch.int64)}

    def _released(self, state: State, sums: Statistics, whose: str) -> Statistics:
        """Return sums as they may leave the server: the same sums with the same noise."""
        if not self.hyper.noise:
            return sums
        content = _name(sums.gram, sums.cross)
        seed = derive_seed(int(state[SECRET]), whose, content, "noise on sums")
        return noisy(sums, self.hyper.noise, np.random.default_rng(seed))

    def _counts_as(self, state: State) -> dict[str, int]:
        return counts_as(state, self.settings.robust.most_examples)

    @staticmethod
    def _everybody(state: State) -> Statistics:
        gram, cross = (state[f"{EVERYBODY}.{name}"].numpy() for name in (GRAM, CROSS))
        return Statistics(gram, cross)


def _released_anew(before: State, after: State) -> State:
    """Return the part of the state that counts releases: other sums leave with other noise."""
    new = int(after[VERSIONS][0] not in (before[VERSIONS][0], 0))
    return {RELEASES: after[RELEASES] + new}


def _facts(upload: Bundle, before: Facts) -> Facts:
    """Return what is known of a person who sent sums; `upload.examples` are those trusted."""
    samples = int(came(upload).statistics().counts.sum())
    return replace(
        before,
        samples=samples,
        trusted=min(samples, upload.examples),
        version=upload.version,
    )


def _parts(name: str, sums: Statistics) -> dict[str, Part]:
    """Return sums as they travel, under a name."""
    sent = Portable.of(sums)
    exponent = np.array([sent.exponent], np.float32)
    return {
        f"{name}.{GRAM}": Dense(sent.gram),
        f"{name}.{CROSS}": Dense(sent.cross),
        f"{name}.exponent": Dense(exponent),
    }


def _name(*content: NDArray[np.generic]) -> int:
    """Return a number that names content, never 0."""
    digest = hashlib.blake2b(digest_size=8)
    for one in content:
        digest.update(np.ascontiguousarray(one).tobytes())
    return (int.from_bytes(digest.digest(), "little") >> 1) or 1
