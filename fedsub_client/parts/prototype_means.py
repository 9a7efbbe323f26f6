"""Prototypes on the device: class means of its embeddings go up, those of all people come down."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsub_client.learner import Learner, Received, State
from fedsub_client.methods.fedsub.prototypes import prototypes
from fedsub_client.parts.counted_rows import CountedRowsLearner
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.addend_numbers import Array
from fedsub_core.data.stacks import Stack
from fedsub_core.method_parts.prototypes import ASKED, COUNTS, HOLDERS, PROTOTYPES
from fedsub_core.models.model import Params
from fedsub_core.training import PrototypePull, Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

HELD = "held"


class PrototypeLearner(Learner):
    """What methods share that exchange prototypes.

    Beside its models a client keeps the last ``prototypes [clients, classes, d]`` it received, and
    which of them it has, ``held`` bool ``[clients, classes]``.
    """

    def init(self, clients: int, seed: int) -> State:
        """Return :meth:`Learner.init`'s state, without any prototype."""
        shape = clients, self.model.classes, self.model.embedding_size
        none = {PROTOTYPES: torch.zeros(shape), HELD: torch.zeros(shape[:2], dtype=torch.bool)}
        return super().init(clients, seed) | none

    def receive(self, state: State, received: Received) -> State:
        """Return the state after each client took in its download; other prototypes stay."""
        state = super().receive(state, received)
        known, held = state[PROTOTYPES].clone(), state[HELD].clone()
        for i, bundle in enumerate(received):
            if PROTOTYPES in bundle.tensors:
                part = bundle.part(PROTOTYPES)
                part.at.put(known[i], torch.from_numpy(np.array(part.values)).to(known.device))
                part.at.put(held[i], True)
        return state | {PROTOTYPES: known, HELD: held}

    def pull(self, state: State) -> PrototypePull:
        """Return the pull to the prototypes received; they are constants in its gradient."""
        return PrototypePull(state[PROTOTYPES], state[HELD], self.hyper.lam)

    def class_means(self, params: Params, data: Stack, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return each class's mean embedding ``[clients, classes, d]``, and its samples."""
        return prototypes(
            embeddings(self.model, params, data.x, scale=data.scale), data, self.model.classes
        )

    def prototype_parts(self, params: Params, data: Stack, turn: Turn) -> list[dict[str, Part]]:
        """Return each client's prototypes after training, and their samples if they are sent."""
        means, counts = (t.cpu().numpy() for t in self.class_means(params, data, turn))
        parts: list[dict[str, Part]] = []
        for mean, count in zip(means, counts, strict=True):
            parts.append({PROTOTYPES: Floats.rows(count > 0, mean[count > 0])})
            if COUNTS in self.sends:
                parts[-1][COUNTS] = Floats(count.astype(np.float32))
        return parts

    def uploads_with_prototypes(self, params: Params, data: Stack, turn: Turn) -> list[Bundle]:
        """Return the parameters that the card says are sent, and prototypes after training."""
        whole = {name: params[name].cpu().numpy() for name in self.sends if name in params}
        own = self.prototype_parts(params, data, turn)
        return [
            Bundle(n, tensors={**{name: Floats(t[i]) for name, t in whole.items()}, **own[i]})
            for i, n in enumerate(data.counts)
        ]


class SummedPrototypeLearner(CountedRowsLearner, PrototypeLearner):
    """What they share where the server learns sums alone."""

    def values(
        self, state: State, i: int, upload: Bundle, received: Bundle
    ) -> Mapping[str, Array] | None:
        """Return the mask of classes that the person has, and their prototypes."""
        part, classes = upload.part(PROTOTYPES), self.model.classes
        has, rows = np.zeros(classes), np.zeros((classes, part.values.shape[1]))
        if np.isfinite(part.values).all():
            has[part.at.rows], rows[part.at.rows] = 1, part.values
        elif self.asked(received)[ASKED].any():
            # Zeros would count as those of somebody who has a class.
            return None
        return {HOLDERS: has, PROTOTYPES: rows}
