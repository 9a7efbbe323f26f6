"""FedSub where the server learns sums alone, the device half.

A device answers by what was counted of it in the round before, so that a slot is of as many people
as were counted. It mixes everybody's means into its rows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_client.learner import Fitted, Received, State
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.vectors import Repeated
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub import MASKS
from fedsub_core.methods.fedsub_sums import COUNTED, PEOPLE, USED, parts_of_units
from fedsub_core.models.architecture import LayerWithUnits, UnitRows
from fedsub_core.models.model import unit_rows
from fedsub_core.secure import layout, slots, uploads
from fedsub_core.secure.keys import Words
from fedsub_core.secure.layout import Array, Bools
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

#: In a state, before a count's name: what was counted last, by class, bool [clients, classes,
#: entries]; in which round, and a digest of what that asked for, int64 [clients].
LAST, ROUND, ASKED_FOR = "counted.", "counted.round", "counted.asked"
#: Of an upload that becomes a vector: its numbers.
NUMBERS = "numbers"


class SummedFedSubLearner(FedSubLearner):
    """State beside the other half's: what was counted last of each person."""

    def init(self, clients: int, seed: int) -> State:
        """Return models of people of whom nothing was counted."""
        state = super().init(clients, seed)
        for name in layout.counts(self.parts):
            shape = clients, self.model.classes, *self.parts[name][0]
            state[LAST + name] = torch.zeros(shape, dtype=torch.bool)
        return state | {n: torch.zeros(clients, dtype=torch.int64) for n in (ROUND, ASKED_FOR)}

    @cached_property
    def parts(self) -> layout.Parts:
        """What a person adds."""
        return parts_of_units(self.model, self.hyper)

    def counted(self, upload: Bundle) -> dict[str, Bools]:
        """Return the entries of each count that a person has, bool [classes or 1, entries]."""
        return {one.name + USED: upload.bits(one.name + MASKS) for one in self._layers}

    def share(self, state: State, i: int, layer: LayerWithUnits, bundle: Bundle) -> Array:
        """Return how much of each of the `i`-th client's units comes from everybody, [units].

        Its classes that use the unit take everybody's row, the others its own (FedSub, eq. 7).
        """
        used = {one.name: state[LAST + one.name + USED][i].cpu().numpy() for one in self._layers}
        classes = np.any([one.any(1) for one in used.values()], axis=0).sum()
        found: Array = used[layer.name].sum(0) / max(classes, 1)
        return found

    def add(
        self,
        values: Mapping[str, Array],
        state: State,
        i: int,
        upload: Bundle,
        asked: Mapping[str, Bools],
    ) -> bool:
        """Add what was counted of the `i`-th client; False: it lacks something of that now."""
        for layer in self._layers:
            classes = state[LAST + layer.name + USED][i].sum(0).cpu().numpy()
            values[layer.name + PEOPLE][:] = np.stack([classes > 0, classes], 1)
            for own in layer.rows:
                values[own.name][:] = classes[:, None] * self._rows(state, i, own)
        return True

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

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train as the other half does; make ready what is counted, and what is asked for."""
        state, alone, reports = super().fit(state, received, data, turn)
        new = {name: t.clone() if name.startswith(LAST) else t for name, t in state.items()}
        sent = [Bundle(upload.examples) for upload in alone]
        for i, (upload, bundle) in enumerate(zip(alone, received, strict=True)):
            if not (asked := self._asked(bundle)):
                continue  # it is in no sum
            which = layout.asked_for(self.parts, asked)
            numbers = np.zeros(len(which), np.float32)
            values = layout.by_name(numbers, self.parts)
            round, was_counted = (int(number) for number in bundle.floats(COUNTED))
            # If it lost what was counted, zeros would count as somebody's.
            if was_counted and not (
                round == state[ROUND][i] and self.add(values, state, i, upload, asked)
            ):
                continue
            for name, now in self.counted(upload).items():
                values[name][:] = now.any(0)
                new[LAST + name][i] = torch.from_numpy(now)
            new[ROUND][i], new[ASKED_FOR][i] = turn.round, layout.digest_of(which)
            sent[i] = Bundle(upload.examples, tensors={NUMBERS: Floats(numbers[which])})
        return new, sent, reports

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

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return what one client adds to a sum: all its numbers are slots."""
        if NUMBERS not in upload.tensors or not np.isfinite(upload.floats(NUMBERS)).all():
            return uploads.NO_VECTOR
        return slots.levels_of(levels).vector(upload.floats(NUMBERS), 1)

    def vector_again(self, vector: Words, again: Repeated) -> Words:
        """Return a vector for a round that is repeated, if it asks for the same."""
        asked = self._asked(again.received)
        digest = layout.digest_of(layout.asked_for(self.parts, asked)) if asked else 0
        if not digest or digest != again.state[ASKED_FOR][0]:
            return uploads.NO_VECTOR
        return slots.again(vector, len(vector) - BESIDE, again.before, again.levels, 1)

    @property
    def _layers(self) -> list[LayerWithUnits]:
        return [*self.model.affine[: self.hyper.depth or None]]

    def _asked(self, bundle: Bundle) -> Mapping[str, Bools]:
        masks = [mask for _, mask in self.parts.values() if mask]
        there = masks[0] in bundle.tensors
        return {mask: bundle.bits(mask) for mask in masks if there}

    def _rows(self, state: State, i: int, own: UnitRows) -> NDArray[np.float32]:
        params = {name: state[f"model.{name}"][i : i + 1] for name in own.tensors}
        found: NDArray[np.float32] = unit_rows(params, own)[0].cpu().numpy()
        return found
