"""Sums of rows by entries of which enough people have each, the device half.

A download to somebody in a round's sum asks for entries by masks. What a person adds of these is
made ready as it trains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from fedsub_client.learner import Fitted, Learner, Received, State
from fedsub_client.protections.vectors import ASKED_FOR, NUMBERS
from fedsub_core import addend_numbers
from fedsub_core.addend_numbers import Array
from fedsub_core.data.stacks import Stack
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats

#: How names in a state begin of what was counted last; of each person, in which round, int64
#: [clients].
LAST, ROUND = "counted.", "counted.round"


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
        """Return the numbers of the `i`-th client, by addend, after it trained; others are 0.

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
            which = addend_numbers.asked_for(self.adds, asked)
            numbers = np.zeros(len(which), np.float32)
            for name, part in addend_numbers.by_name(numbers, self.adds).items():
                part[:] = values.get(name, 0)
            new[ROUND][i], new[ASKED_FOR][i] = turn.round, addend_numbers.digest_of(which)
            moved = {name: upload.tensors[name] for name in self.weighted}
            sent[i] = replace(sent[i], tensors={**moved, NUMBERS: Floats(numbers[which])})
        return new, sent, reports
