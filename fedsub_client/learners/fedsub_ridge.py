"""FedSub in closed form, the device half: sums once, and a head whenever there is news."""

from __future__ import annotations

import numpy as np
import torch

from fedsub_client.learners.base import Fitted, Learner, Received, State, reported
from fedsub_client.learners.own_sums import KnownSums, Own
from fedsub_core.closed_form.personal import Head, Sums, personal_head
from fedsub_core.closed_form.sending import Rounded, flat, unflat
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub_ridge import (
    CROSS,
    EQUATIONS,
    EVERYBODY,
    GRAM,
    POOLED,
    SHIFTS,
    candidates,
    groups,
)
from fedsub_core.training import Turn
from fedsub_core.wire.bundles import Bundle, Dense, Part, Whole

LOSS, SOLVED = "left_out_loss", "solved"
#: Without which a download brings no sums.
SUMS = f"{EVERYBODY}.{GRAM}"


class FedSubRidgeLearner(Learner):
    """State beside the model: whether it was ever solved, and the loss of samples left out."""

    def init(self, clients: int, seed: int) -> State:
        """Return models that nobody has solved."""
        nothing = {LOSS: torch.zeros(clients), SOLVED: torch.zeros(clients)}
        return super().init(clients, seed) | nothing

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Solve a head of what is new; send sums if the server has others, equations if asked."""
        known = state[SOLVED].tolist()
        state, heads = self._solved(state, received, data)
        uploads = []
        for i, (bundle, head) in enumerate(zip(received, heads, strict=True)):
            own = Own(data, i, self.model.classes)
            tensors: dict[str, Part] = {}
            # Whoever lost its state, and is thought to have all sums, asks for them by its own.
            lost = not known[i] and SUMS not in bundle.tensors
            if lost or bundle.version != own.version:
                sums = Rounded.of(own.statistics)
                tensors = {GRAM: Whole(sums.gram), CROSS: Whole(sums.cross)}
                tensors[SHIFTS] = Dense(sums.shifts.astype(np.float32))
            if head is not None and SUMS in bundle.tensors:
                a_sample = flat(head.equations) / data.counts[i]
                tensors[EQUATIONS] = Dense(a_sample.astype(np.float32))
            uploads.append(Bundle(data.counts[i], own.version, tensors))
        return state, uploads, reported(left_out_loss=state[LOSS])

    def personalise(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Solve heads of what is new, without sending anything."""
        return self._solved(state, received, data)[0]

    def _solved(
        self, state: State, received: Received, data: Stack
    ) -> tuple[State, list[Head | None]]:
        """Return the state with new heads, and these; None where nothing is new."""
        state = state | {name: tensor.clone() for name, tensor in state.items()}
        weight, bias = (f"{self.models[0]}.{name}" for name in self.model.parameter_shapes)
        known, heads = KnownSums(), list[Head | None]()
        for i, bundle in enumerate(received):
            if SUMS not in bundle.tensors and state[SOLVED][i]:
                heads.append(None)
                continue
            head = self._head(Own(data, i, self.model.classes), bundle, known)
            state[weight][i] = torch.from_numpy(head.weight)
            state[bias][i] = torch.from_numpy(head.bias)
            state[LOSS][i] = float(head.equations.losses.min()) / data.counts[i]
            state[SOLVED][i] = 1
            heads.append(head)
        return state, heads

    def _head(self, own: Own, bundle: Bundle, known: KnownSums) -> Head:
        sets: list[Sums] = []
        pooled = None
        if SUMS in bundle.tensors:
            lacks = own.lacks(bundle)
            everybody = known.sums(bundle, EVERYBODY, lacks)
            names = groups(self.hyper, self.model.classes)
            each = [
                known.sums(bundle, n, lacks) if f"{n}.{GRAM}" in bundle.tensors else everybody
                for n in names
            ]
            sets = [everybody, *([each] if len(each) > 1 else each)]
        if POOLED in bundle.tensors:
            pooled = unflat(bundle.floats(POOLED), candidates(self.hyper), 1.0)
        hyper = self.hyper
        return personal_head(own.x, own.y, own.classes, sets, pooled, hyper.prior, hyper.heads)
