"""FedSub in closed form where the server learns sums alone, the device half.

A round asks for one thing at most: which classes a person has, its statistics of those classes that
enough people have, or what its candidates said. Statistics are sent once. What comes later counts
at home.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.methods.fedsub_ridge import (
    LOSS,
    SOLVED,
    SUMS,
    FedSubRidgeLearner,
    equations_of,
    sums_of,
)
from fedsub_client.parts.own_sums import Own, There
from fedsub_core.closed_form import summing
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.data.stacks import Stack
from fedsub_core.method_parts.ridge_tensors import (
    ASKED,
    CROSS,
    EQUATIONS,
    GRAM,
    HELD,
    INSIDE,
    OF_CLASSES,
    SHIFTS,
    candidates,
)
from fedsub_core.pytorch import as_tensor, zeros
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.transcript import of_bundle
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

#: Which classes a person has, in an upload that becomes a vector.
CLASSES = "classes"
#: Of the statistics that were sent: in which round, of how many samples, and their name.
SENT = "sent"


class SummedRidgeLearner(FedSubRidgeLearner):
    """State beside the other half's: what was sent last, int64 [clients, 3]."""

    def init(self, clients: int, seed: int) -> State:
        """Return models that nobody has solved, of people who have sent nothing."""
        return super().init(clients, seed) | {SENT: zeros((clients, 3), np.int64)}

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Solve a head of what is new; make ready what is asked for."""
        known = state[SOLVED].tolist()
        persons = self.persons(data)
        state, heads = self.solved(state, received, persons)
        uploads = []
        for i, (bundle, head, own) in enumerate(zip(received, heads, persons, strict=True)):
            kind, classes = _asked(bundle, own.classes)
            tensors: dict[str, Part] = {}
            if kind == summing.CLASSES:
                tensors[CLASSES] = Floats(own.held().astype(np.float32))
            elif kind == summing.STATISTICS:
                tensors = sums_of(own.of_classes(classes))
                state[SENT][i] = as_tensor(np.array([turn.round, own.counted, own.version]))
            elif kind == summing.EQUATIONS and head is not None:
                tensors[EQUATIONS] = equations_of(head, candidates(self.hyper))
            # Whoever lost its state says that it has none of the sums that it is thought to have.
            has = known[i] or SUMS in bundle.tensors
            uploads.append(Bundle(own.counted, bundle.version if has else 0, tensors))
        return state, uploads, reported(left_out_loss=state[LOSS])

    def there(self, state: State, i: int, own: Own, bundle: Bundle) -> There:
        """Return the samples of the `i`-th client that the sums in a download hold.

        A device that lost its memory goes by the samples that it has.
        """
        round, weight, _ = (int(n) for n in bundle.floats(HELD))
        if not round:
            return There()
        classes = bundle.floats(INSIDE) > 0
        sent, samples, version = state[SENT][i].tolist()
        if sent != round:
            samples, version = own.counted, own.version
        return There(version, samples, min(samples, weight), classes)

    def once(self, received: Bundle) -> str:
        """Name statistics, and equations by the download that they are of, whatever its number.

        Which classes a person has is counted anew while people come: of that :meth:`vector` says
        no more than evaluated rounds do.
        """
        kind, _ = _asked(received, self.model.classes)
        if kind == summing.EQUATIONS:
            sums = replace(self.told_alike(received), version=0)
            return f"equations of sums {of_bundle(sums)[:16]}"
        return "statistics" if kind == summing.STATISTICS else ""

    def told_alike(self, received: Bundle) -> Bundle:
        """Return the part of a download on which a client's vector depends.

        Statistics do not depend on everybody's sums, which are sent to those who lack them. Which
        of its samples are in these is of each client alone.
        """
        kind, _ = _asked(received, self.model.classes)
        asks = {ASKED, OF_CLASSES}
        kept = received.tensors.keys() - {HELD, INSIDE} if kind == summing.EQUATIONS else asks
        alike = {name: part for name, part in received.tensors.items() if name in kept}
        return replace(received, tensors=alike)

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return the vector of one client: of what it was asked for.

        Raises ValueError if it was asked for nothing.
        """
        sent = upload.tensors
        if CLASSES in sent:
            return summing.of_classes(upload.floats(CLASSES) > 0, levels)
        if GRAM in sent:
            shifts = upload.floats(SHIFTS).astype(np.int64)
            sums = Rounded(upload.whole(GRAM), upload.whole(CROSS), shifts)
            return summing.of_statistics(sums, upload.examples, levels)
        if EQUATIONS not in sent:
            raise ValueError("asked: got nothing beside a plan of a sum, expected what is added up")
        row, of = upload.floats(EQUATIONS), (candidates(self.hyper), self.model.classes)
        return summing.of_equations(row, *of, upload.examples, levels)


def _asked(bundle: Bundle, classes: int) -> tuple[int, NDArray[np.bool_]]:
    """Return what a download asks for, and of which classes, bool [classes]."""
    if ASKED not in bundle.tensors:
        return 0, np.zeros(classes, np.bool_)
    return int(bundle.floats(ASKED)[0]), bundle.floats(OF_CLASSES) > 0
