"""FedSub where the server learns sums alone, the device half.

A device answers by what was counted of it in the round before, so that a slot is of as many people
as were counted. It mixes everybody's means into its rows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_client.learner import Received, State
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.parts.counted_rows import LAST, ROUND, CountedRowsLearner
from fedsub_core.addend_numbers import Array, Bools
from fedsub_core.addends import counting
from fedsub_core.methods.fedsub import MASKS
from fedsub_core.methods.fedsub_sums import COUNTED, PEOPLE, USED
from fedsub_core.models.architecture import LayerWithUnits, UnitRows
from fedsub_core.models.model import unit_rows
from fedsub_core.wire.bundles import Bundle, Floats, Part


class SummedFedSubLearner(CountedRowsLearner, FedSubLearner):
    """State beside the other half's: of each person what was counted last.

    That is by class, bool [clients, classes, entries].
    """

    def init(self, clients: int, seed: int) -> State:
        """Return models of people of whom nothing was counted."""
        state, by_class = super().init(clients, seed), (clients, self.model.classes)
        for count in counting(self.adds):
            state[LAST + count.name] = torch.zeros(*by_class, *count.shape, dtype=torch.bool)
        return state

    def values(
        self, state: State, i: int, upload: Bundle, received: Bundle
    ) -> Mapping[str, Array] | None:
        """Return rows by what was counted last, and what is counted now, which the state keeps."""
        round, was_counted = (int(number) for number in received.floats(COUNTED))
        values: dict[str, Array] = {}
        if was_counted:
            # If it lost what was counted, zeros would count as somebody's.
            if round != state[ROUND][i]:
                return None
            if (added := self.add(state, i, upload, self.asked(received))) is None:
                return None
            values = added
        for name, now in self.counted(upload).items():
            values[name] = np.asarray(now.any(0), np.float32)
            state[LAST + name][i] = torch.from_numpy(now)
        return values

    def counted(self, upload: Bundle) -> dict[str, Bools]:
        """Return the entries of each count that a person has, bool [classes or 1, entries]."""
        return {layer.name + USED: upload.bits(layer.name + MASKS) for layer in self._layers}

    def share(self, state: State, i: int, layer: LayerWithUnits, bundle: Bundle) -> Array:
        """Return how much of each of the `i`-th client's units comes from everybody, [units].

        Its classes that use the unit take everybody's row, the others its own (FedSub, eq. 7).
        """
        names = [each.name for each in self._layers]
        used = {name: state[LAST + name + USED][i].cpu().numpy() for name in names}
        classes = np.any([units.any(1) for units in used.values()], axis=0).sum()
        share: Array = used[layer.name].sum(0) / max(classes, 1)
        return share

    def add(
        self, state: State, i: int, upload: Bundle, asked: Mapping[str, Bools]
    ) -> dict[str, Array] | None:
        """Return the rows of the units counted of the `i`-th client; None: it lacks some now."""
        values: dict[str, Array] = {}
        for layer in self._layers:
            classes = state[LAST + layer.name + USED][i].sum(0).cpu().numpy()
            values[layer.name + PEOPLE] = np.stack([classes > 0, classes], 1).astype(np.float32)
            for own in layer.rows:
                values[own.name] = classes[:, None] * self._rows(state, i, own)
        return values

    def receive(self, state: State, received: Received) -> State:
        """Mix everybody's means into each person's rows."""
        mixed = list(received)
        for i, bundle in enumerate(received):
            tensors = dict[str, Part](bundle.tensors)
            for layer in self._layers if COUNTED in tensors else ():
                share = self.share(state, i, layer, bundle).astype(np.float32)[:, None]
                for own in layer.rows:
                    part, rows = bundle.part(own.name), self._rows(state, i, own)
                    at = part.at.held((layer.units,)) & (share[:, 0] > 0)
                    every = np.zeros_like(rows)
                    part.at.put(every, part.values)
                    tensors[own.name] = Floats.rows(at, (share * every + (1 - share) * rows)[at])
            mixed[i] = replace(bundle, tensors=tensors)
        return super().receive(state, mixed)

    def told_alike(self, received: Bundle) -> Bundle:
        """Return a download without whether a client was in the sum that counted."""
        counted = received.tensors.get(COUNTED)
        if not isinstance(counted, Floats):
            return received
        return replace(received, tensors={**received.tensors, COUNTED: Floats(counted.values[:1])})

    def outside(self, received: Bundle) -> int:
        """Return the round of the last sum if a download says that a client was not in it."""
        if COUNTED not in received.tensors:
            return 0
        round, was_counted = (int(number) for number in received.floats(COUNTED))
        return 0 if was_counted else round

    @property
    def _layers(self) -> list[LayerWithUnits]:
        return [*self.model.affine[: self.hyper.depth or None]]

    def _rows(self, state: State, i: int, own: UnitRows) -> NDArray[np.float32]:
        params = {name: state[f"model.{name}"][i : i + 1] for name in own.tensors}
        rows: NDArray[np.float32] = unit_rows(params, own)[0].cpu().numpy()
        return rows
