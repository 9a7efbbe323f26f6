"""FedSub where the server learns sums alone, the device half.

A device finds its cluster of each class by public centroids, and says so to nobody: it adds to the
slots of that cluster. It answers by what was counted of it in the round before, so that a slot is
of as many people as were counted. Fusion is the device's own work, by what the sums say of its
clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_client.in_sums import Repeated
from fedsub_client.learner import Fitted, Received, State
from fedsub_client.methods.fedsub.addends import add_prototypes, add_rows, nearest, within
from fedsub_client.methods.fedsub.fusion_by_means import OfClusters, fuse, of_clusters, places
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.methods import fedsub
from fedsub_core.methods.fedsub_sums import (
    ASKED,
    ASKED_UNITS,
    COUNTED,
    OPEN,
)
from fedsub_core.models.model import Params
from fedsub_core.models.unit_rows import unit_rows
from fedsub_core.secure import slots
from fedsub_core.secure.cluster_slots import (
    MEMBERS,
    PEOPLE,
    SELECTED,
    Layout,
    digest_of,
)
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.secure.uploads import NO_VECTOR
from fedsub_core.training import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

Bools = NDArray[np.bool_]
Array = NDArray[np.floating]

#: In a state: the cluster of each class by the last count, int64 [clients, classes], -1: in none;
#: the one in which units were counted last; and by layer which units were selected then, bool
#: [clients, classes, units].
CLUSTER, OF_UNITS, CHOSEN = "counted.cluster", "counted.of-units", "counted.chosen."
#: In which round it was counted last, int64 [clients]; and a hash of what that round asked for.
ROUND, ASKED_FOR = "counted.round", "counted.asked"
#: Of an upload that becomes a vector: its numbers.
NUMBERS = "numbers"


class SummedSubnetworkLearner(FedSubLearner):
    """What methods share that fuse subnetworks.

    State beside the other half's: what was counted last of each person.
    """

    def init(self, clients: int, seed: int) -> State:
        """Return models of people of whom nothing was counted."""
        classes = self.model.classes
        chosen = {
            CHOSEN + layer.name: torch.zeros(clients, classes, layer.units, dtype=torch.bool)
            for layer in self._layout.layers
        }
        none = torch.full((clients, classes), -1, dtype=torch.int64)
        never = {name: torch.zeros(clients, dtype=torch.int64) for name in (ROUND, ASKED_FOR)}
        counted = {CLUSTER: none, OF_UNITS: none.clone()}
        return super().init(clients, seed) | counted | never | chosen

    def receive(self, state: State, received: Received) -> State:
        """Replace the units that a person's clusters say something of, keep all others."""
        rows = self._rows(self.get(state, "model"))
        fused = [
            replace(bundle, tensors={**bundle.tensors, **self._fused(state, i, rows, bundle)})
            for i, bundle in enumerate(received)
        ]
        return super().receive(state, fused)

    def replaced(
        self, state: State, i: int, layer: str, own: str, of: OfClusters, bundle: Bundle
    ) -> tuple[Array, Bools]:
        """Return the `i`-th client's rows float32 [units, width], and which are new [units].

        Parameters
        ----------
        layer, own : names of the layer, and of its rows.
        of : the client's clusters.
        bundle : its download.
        """
        raise NotImplementedError

    def noted(self, state: State, i: int, upload: Bundle) -> None:
        """Keep of the `i`-th client's upload what its next download is fused by."""
        for layer in self._layout.layers:
            chosen = upload.bits(layer.name + fedsub.MASKS)
            state[CHOSEN + layer.name][i] = torch.from_numpy(chosen)

    def add_clusters(
        self,
        parts: dict[str, Array],
        rows: Mapping[str, Array],
        chosen: Mapping[str, Bools],
        upload: Bundle,
        bundle: Bundle,
        inside: NDArray[np.int64],
        of_units: NDArray[np.int64],
    ) -> None:
        """Add what is of the clusters of one person.

        Parameters
        ----------
        rows : the person's, by name float32 [units, width].
        chosen : which units were counted last as its, by layer bool [classes, units].
        upload, bundle : what it would send by itself, and its download.
        inside : its clusters of which prototypes are asked for, int64 [classes], -1: of none. In
            these, units are counted now, and rows will be asked for.
        of_units : those in which units were counted last.
        """
        add_prototypes(parts, inside, upload)
        parts[MEMBERS][places(within(of_units, bundle.bits(ASKED)))] = 1
        for layer in self._layout.layers:
            own = {one.name: rows[one.name] for one in layer.rows}
            asked = bundle.bits(layer.name + ASKED_UNITS)
            add_rows(parts, own, asked, of_units, chosen[layer.name])
            selected = upload.bits(layer.name + fedsub.MASKS)
            parts[SELECTED + layer.name][places(inside)] = selected[inside >= 0]

    def add_beside(
        self,
        parts: Mapping[str, Array],
        upload: Bundle,
        asks: Mapping[str, Bools],
        last: Mapping[str, Tensor] | None,
    ) -> bool:
        """Add what is of no cluster; False: the person lacks what was counted of it.

        Parameters
        ----------
        asks : what is asked for.
        last : of the person's state what was counted last; None: it was not in that sum.
        """
        return True

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train as the other half does; make ready what is counted, and what is asked for."""
        state, uploads, reports = super().fit(state, received, data, turn)
        rows, new = self._rows(self.get(state, "model")), dict(state)
        chosen = {layer.name: state[CHOSEN + layer.name] for layer in self._layout.layers}
        new |= {name: one.clone() for name, one in state.items() if name.startswith("counted.")}
        sent = []
        for i, (upload, bundle) in enumerate(zip(uploads, received, strict=True)):
            if ASKED not in bundle.tensors:  # it is in no sum
                sent.append(Bundle(upload.examples))
                continue
            asks, asked = self._asks(bundle), bundle.bits(ASKED)
            counted_in, was_counted = (int(one) for one in bundle.floats(COUNTED))
            known = counted_in and counted_in == int(state[ROUND][i])
            before = [_of(state[name], i) for name in (CLUSTER, OF_UNITS)]
            last = None
            if known and was_counted:
                last = {n: t[i] for n, t in state.items() if n.startswith("counted.")}
            else:  # it has no part in slots
                before = [np.full_like(one, -1) for one in before]
            was_in, of_units = before
            inside = within(was_in, asked)
            held = upload.bits(fedsub.CLASSES)
            lost = (was_counted and not known) or (inside[~held] >= 0).any()
            if lost or not self._layout.apart(asks):
                # It lost its state, or a class: zeros of it would count as somebody's. Or rows of
                # few people could be read off two slots.
                sent.append(Bundle(upload.examples))
                continue
            parts = self._layout.empty()
            cluster = nearest(upload, bundle)
            parts[PEOPLE][places(cluster)] = 1
            own = {name: of[i] for name, of in rows.items()}
            counted = {name: _of(of, i) for name, of in chosen.items()}
            self.add_clusters(parts, own, counted, upload, bundle, inside, of_units)
            if not self.add_beside(parts, upload, asks, last):
                sent.append(Bundle(upload.examples))
                continue
            self.noted(new, i, upload)
            new[CLUSTER][i] = torch.from_numpy(cluster)
            new[OF_UNITS][i] = torch.from_numpy(inside)
            new[ROUND][i], new[ASKED_FOR][i] = turn.round, digest_of(asks)
            numbers = self._layout.joined(parts, asks)
            sent.append(Bundle(upload.examples, tensors={NUMBERS: Floats(numbers)}))
        return new, sent, reports

    def told_alike(self, received: Bundle) -> Bundle:
        """Return a download without whether a client was in the sum that counted."""
        counted = received.tensors.get(COUNTED)
        if not isinstance(counted, Floats):
            return received
        tensors = {**received.tensors, COUNTED: Floats(counted.values[:1])}
        return replace(received, tensors=tensors)

    def outside(self, received: Bundle) -> int:
        """Return the round of the last sum if a download says that a client was not in it."""
        if COUNTED not in received.tensors:
            return 0
        counted_in, was_counted = (int(one) for one in received.floats(COUNTED))
        return 0 if was_counted else counted_in

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return what one client adds to a sum; each counts once, whatever its samples."""
        if NUMBERS not in upload.tensors or not np.isfinite(upload.floats(NUMBERS)).all():
            return NO_VECTOR
        return slots.levels_of(levels).vector(upload.floats(NUMBERS), 1)

    def vector_again(self, vector: Words, again: Repeated) -> Words:
        """Return a vector for a round that is repeated; all its numbers are slots."""
        if ASKED not in again.received.tensors:
            return NO_VECTOR
        if digest_of(self._asks(again.received)) != int(again.state[ASKED_FOR][0]):
            return NO_VECTOR
        return slots.again(vector, len(vector) - BESIDE, again.before, again.levels, 1)

    def _fused(
        self, state: State, i: int, rows: Mapping[str, Array], bundle: Bundle
    ) -> dict[str, Part]:
        """Return the rows that replace those of the `i`-th client."""
        found = dict[str, Part]()
        if OPEN not in bundle.tensors:
            return found
        cluster, last = _of(state[OF_UNITS], i), int(state[ROUND][i])
        if last and int(bundle.floats(COUNTED)[0]) != last:  # its clusters may be others now
            return found
        for layer in self._layout.layers:
            chosen = _of(state[CHOSEN + layer.name], i)
            for own in layer.rows:
                known = of_clusters(bundle, layer, own, cluster, chosen, rows[own.name][i])
                fused, new = self.replaced(state, i, layer.name, own.name, known, bundle)
                found[own.name] = Floats.rows(new, fused[new])
        return found

    def _asks(self, bundle: Bundle) -> dict[str, Bools]:
        """Return what a download asks for, as a layout takes it."""
        layout = self._layout
        names = OPEN, ASKED, *(layer.name + ASKED_UNITS for layer in layout.layers)
        return {n: bundle.bits(n) for n in (*names, *filter(None, layout.beside.values()))}

    def _rows(self, params: Params) -> dict[str, Array]:
        """Return all clients' rows, by name float32 [clients, units, width]."""
        every = [own for layer in self._layout.layers for own in layer.rows]
        return {own.name: unit_rows(params, own).cpu().numpy() for own in every}

    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return Layout.of(self.model, self.hyper)

    @cached_property
    def _layout(self) -> Layout:
        return self.layout()


class SummedFedSubLearner(SummedSubnetworkLearner):
    """FedSub's fusions."""

    def replaced(
        self, state: State, i: int, layer: str, own: str, of: OfClusters, bundle: Bundle
    ) -> tuple[Array, Bools]:
        """Return rows as the papers' equations say."""
        if not len(of.classes):
            return of.own, np.zeros(len(of.own), np.bool_)
        fusion, reading = self.hyper.fusion, self.hyper.fusion_reading
        return fuse(fusion, reading, of)


def _of(tensor: Tensor, i: int) -> NDArray[Any]:
    """Return one client's part of a tensor, wherever that lies."""
    found: NDArray[Any] = tensor[i].cpu().numpy()
    return found
