"""Sums of rows by entries of which enough people have each, the device half.

A download to somebody in a round's sum asks for entries by masks. What a person adds of these is
made ready as it trains, and becomes the slots of its vector. What the method trains beside it, and
the sum takes by samples, stands before them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from fedsub_client.learner import Fitted, Learner, Received, State
from fedsub_client.protections.vectors import Repeated
from fedsub_core import addends
from fedsub_core.addends import Array, Bools
from fedsub_core.data.stacks import Stack
from fedsub_core.secure import slots, uploads
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Declaration, Floats

#: How names in a state begin of what was counted last: of each person in which round, and a digest
#: of what that asked for, int64 [clients]. A method may keep more so.
LAST, ROUND, ASKED_FOR = "counted.", "counted.round", "counted.asked"
#: Of an upload that becomes a vector: its slots' numbers.
NUMBERS = "numbers"


class CountedRowsLearner(Learner):
    """What learners share that add rows to a sum; what a person adds stands on the card."""

    def init(self, clients: int, seed: int) -> State:
        """Return models of people who were asked for nothing."""
        none = torch.zeros(clients, dtype=torch.int64)
        return super().init(clients, seed) | {ROUND: none, ASKED_FOR: none.clone()}

    @abstractmethod
    def values(
        self, state: State, i: int, upload: Bundle, received: Bundle
    ) -> Mapping[str, Array] | None:
        """Return what the `i`-th client adds, by addend, after it trained; others are 0.

        None if it may be in no sum: zeros of it would count as somebody's. What is to be known in
        a later round of what it adds may be put into `state`, in place where names begin with LAST.
        """

    def work(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train as the method does; make ready what is asked for, and send nothing else."""
        state, alone, reports = super().work(state, received, data, turn)
        new = {name: t.clone() if name.startswith(LAST) else t for name, t in state.items()}
        sent = [Bundle(upload.examples) for upload in alone]
        for i, (upload, bundle) in enumerate(zip(alone, received, strict=True)):
            if not (asked := self.asked(bundle)):
                continue  # it is in no sum
            if (values := self.values(new, i, upload, bundle)) is None:
                continue
            which = addends.asked_for(self.adds, asked)
            numbers = np.zeros(len(which), np.float32)
            for name, part in addends.by_name(numbers, self.adds).items():
                part[:] = values.get(name, 0)
            new[ROUND][i], new[ASKED_FOR][i] = turn.round, addends.digest_of(which)
            moved = {name: upload.tensors[name] for name in self._weighted}
            sent[i] = replace(sent[i], tensors={**moved, NUMBERS: Floats(numbers[which])})
        return new, sent, reports

    def asked(self, received: Bundle) -> Mapping[str, Bools]:
        """Return the masks of a download to somebody in a sum; none to others."""
        masks = [one.mask for one in self.adds if one.mask]
        return {m: received.bits(m) for m in masks} if masks[0] in received.tensors else {}

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return what one client adds to a sum: how its tensors moved, and slots."""
        if NUMBERS not in upload.tensors or not np.isfinite(upload.floats(NUMBERS)).all():
            return uploads.NO_VECTOR
        # Where nothing is weighted by samples, nobody tells how many they are.
        by = upload.examples if self._weighted else 1
        moved = uploads.of_upload(replace(upload, examples=by), received, self._weighted, levels)
        return slots.with_slots(moved, upload.floats(NUMBERS), levels)

    def vector_again(self, vector: Words, again: Repeated) -> Words:
        """Return a vector for a round that is repeated, if it asks for the same."""
        asked = self.asked(again.received)
        digest = addends.digest_of(addends.asked_for(self.adds, asked)) if asked else 0
        if not digest or digest != again.state[ASKED_FOR][0]:
            return uploads.NO_VECTOR
        weighted = uploads.length(self._weighted) - BESIDE
        by = again.examples if weighted else 1
        return slots.again(vector, weighted, again.before, again.levels, by)

    @property
    def _weighted(self) -> Declaration:
        return {one.name: self.sends[one.name] for one in self.adds if one.weighted}
