"""FedSub in closed form, the device half: sums once, and a head whenever there is news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_client.parts import solved_sums
from fedsub_client.parts.own_sums import Own, There
from fedsub_client.parts.solved_sums import Known, KnownSums
from fedsub_core.closed_form.lending import Holders
from fedsub_core.closed_form.noise import deviation
from fedsub_core.closed_form.personal import Head, Mixing, Sums, personal_head
from fedsub_core.closed_form.prior import EVERYBODY as OF_EVERYBODY
from fedsub_core.closed_form.sending import Rounded, flat, unflat
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.data.stacks import Stack
from fedsub_core.method_parts.ridge_tensors import (
    CROSS,
    EQUATIONS,
    EVERYBODY,
    GRAM,
    HOLDERS,
    POOLED,
    SHIFTS,
    candidates,
    groups,
)
from fedsub_core.pytorch import Tensor, as_tensor, copied, without_gradients, zeros
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part, Whole

#: Deviations of noise from which on everybody's count of a class is one: noise alone makes of none
#: more in one of 40.
CLEAR = 2.0
LOSS, SOLVED = "left_out_loss", "solved"
#: The head of own samples alone, which what comes of others' sums is held against.
ALONE = "alone"
#: Without which a download brings no sums.
SUMS = f"{EVERYBODY}.{GRAM}"


class FedSubRidgeLearner(Learner):
    """State beside the model: whether it was solved, the loss of samples left out, the own head."""

    def init(self, clients: int, seed: int) -> State:
        """Return models that nobody has solved, the own head alone among them."""
        nothing = {LOSS: zeros((clients,)), SOLVED: zeros((clients,))}
        alone = self.put(self.model.init(clients, seed), ALONE)
        return super().init(clients, seed) | nothing | alone

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Solve a head of what is new; send sums if the server has others, equations if asked."""
        known = state[SOLVED].tolist()
        persons = self.persons(data)
        state, heads = self.solved(state, received, persons)
        uploads = []
        for i, (bundle, head, own) in enumerate(zip(received, heads, persons, strict=True)):
            tensors: dict[str, Part] = {}
            # Whoever lost its state, and is thought to have all sums, asks for them by its own.
            lost = not known[i] and SUMS not in bundle.tensors
            if lost or bundle.version != own.version:
                tensors = sums_of(own.statistics)
            if head is not None and SUMS in bundle.tensors and not own.answered(bundle):
                tensors[EQUATIONS] = equations_of(head, candidates(self.hyper))
            uploads.append(Bundle(own.counted, own.version, tensors))
        return state, uploads, reported(left_out_loss=state[LOSS])

    def arrived(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Solve heads of what is new, without sending anything."""
        persons = self.persons(data)
        return self.solved(state, received, persons)[0]

    def persons(self, data: Stack) -> list[Own]:
        """Return each client's own samples."""
        how = self.model.classes, self.hyper.forgetting, self.hyper.stretches
        return [Own(data, i, *how) for i in range(len(data.counts))]

    def predict_alone(self, state: State, x: Tensor) -> Tensor:
        """Return logits of the heads that clients have of their own samples alone."""
        with without_gradients():
            return self.model.forward(self.get(state, ALONE), x)

    def solved(
        self, state: State, received: Received, persons: Sequence[Own]
    ) -> tuple[State, list[Head | None]]:
        """Return the state with new heads, and these; None where nothing is new."""
        state = state | {name: copied(tensor) for name, tensor in state.items()}
        names = [
            [f"{model}.{name}" for name in self.model.parameter_shapes]
            for model in (self.models[0], ALONE)
        ]
        known, heads = KnownSums(), list[Head | None]()
        for i, (bundle, own) in enumerate(zip(received, persons, strict=True)):
            if SUMS not in bundle.tensors and state[SOLVED][i]:
                heads.append(None)
                continue
            lacks = None
            if SUMS in bundle.tensors:
                lacks = own.lacks(self.there(state, i, own, bundle))
            head = self._head(own, bundle, known, lacks)
            for (weight, bias), of in zip(
                names, ((head.weight, head.bias), head.alone), strict=True
            ):
                state[weight][i], state[bias][i] = map(as_tensor, of)
            state[LOSS][i] = float(head.equations.losses.min()) / max(head.equations.samples, 1)
            state[SOLVED][i] = 1
            heads.append(head)
        return state, heads

    def there(self, state: State, i: int, own: Own, bundle: Bundle) -> There:
        """Return the samples of the `i`-th client that the sums in a download hold."""
        return There.of(bundle)

    def _head(self, own: Own, bundle: Bundle, known: KnownSums, lacks: Statistics | None) -> Head:
        sets: list[Sums] = []
        everybody: Known | None = None
        pooled = holders = None
        if HOLDERS in bundle.tensors:
            holders = Holders.of(bundle.floats(HOLDERS))
        if SUMS in bundle.tensors:
            everybody = known.sums(bundle, EVERYBODY, lacks)
            names = groups(self.hyper, self.model.classes)
            there = [f"{name}.{GRAM}" in bundle.tensors for name in names]
            each = [
                known.sums(bundle, name, lacks) if of_group else everybody
                for name, of_group in zip(names, there, strict=True)
            ]
            sound = all(one.sound for one in (everybody, *each))
            if self.hyper.noise or (sound and (holders is None or holders.sound)):
                groups_sums = [one.shared for one in each]
                sets = [everybody.shared, *([groups_sums] if len(each) > 1 else groups_sums)]
            else:  # no samples have them: own ones remain
                everybody = None
        if everybody and POOLED in bundle.tensors:
            pooled = unflat(bundle.floats(POOLED), candidates(self.hyper), 1.0)
        hyper = self.hyper
        least = CLEAR * deviation(own.x.shape[1], hyper.noise)
        solved = everybody.candidates(own) if everybody else solved_sums.ALONE.solved(own)
        # Without a label there is nothing of one's own to mix.
        heads = hyper.heads if len(own.y) else OF_EVERYBODY
        noisy, lends = hyper.noise > 0, hyper.open_classes == "on"
        how = Mixing(hyper.prior, heads, least, noisy, lends, holders, own.stretches)
        head = personal_head(own.x, own.y, own.classes, sets, pooled, how, solved, own.weights)
        solved_sums.ALONE.keep(own, solved)
        if everybody:
            everybody.keep(own, solved)
        return head


def sums_of(statistics: Statistics) -> dict[str, Part]:
    """Return statistics as they travel."""
    sums = Rounded.of(statistics)
    whole = {GRAM: Whole(sums.gram), CROSS: Whole(sums.cross)}
    return {**whole, SHIFTS: Floats(sums.shifts.astype(np.float32))}


def equations_of(head: Head, candidates: int) -> Floats:
    """Return a head's equations as they travel: a sample's worth.

    Of candidates on sums that are not solved they say nothing.
    """
    own, lack = head.equations, candidates - len(head.equations.target)
    whole = replace(own, gram=np.pad(own.gram, (0, lack)), target=np.pad(own.target, (0, lack)))
    a_sample = flat(whole) / own.samples
    return Floats(a_sample.astype(np.float32))
