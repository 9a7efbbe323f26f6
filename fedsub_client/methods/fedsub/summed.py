"""FedSub where the server learns sums alone, the device half.

A device finds its cluster of each class by public centroids, and says so to nobody: it adds to the
slots of that cluster. It answers by what was counted of it in the round before, so that a slot is
of as many people as were counted. Fusion is the device's own work, by what the sums say of its
clusters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.methods.fedsub.subnetworks import integrate, unit_rows
from fedsub_core.data.stacks import Stack
from fedsub_core.methods import fedsub, fedsub_sums
from fedsub_core.methods.fedsub_sums import (
    ASKED,
    ASKED_UNITS,
    CENTROIDS,
    COUNTED,
    MEANS,
    OPEN,
    SELECTED_BY_ALL,
)
from fedsub_core.models.architecture import LayerWithUnits
from fedsub_core.models.model import Params
from fedsub_core.secure import slots
from fedsub_core.secure.cluster_slots import MEMBERS, PEOPLE, PROTOTYPES, SELECTED, Layout
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


class SummedFedSubLearner(FedSubLearner):
    """State beside the other half's: what was counted last of each person."""

    def init(self, clients: int, seed: int) -> State:
        """Return models of people of whom nothing was counted."""
        classes = self.model.classes
        chosen = {
            CHOSEN + layer.name: torch.zeros(clients, classes, layer.units, dtype=torch.bool)
            for layer in self._layers
        }
        none = torch.full((clients, classes), -1, dtype=torch.int64)
        never = {name: torch.zeros(clients, dtype=torch.int64) for name in (ROUND, ASKED_FOR)}
        counted = {CLUSTER: none, OF_UNITS: none.clone()}
        return super().init(clients, seed) | counted | never | chosen

    def receive(self, state: State, received: Received) -> State:
        """Replace the units that a person's clusters say something of, keep all others."""
        params = self.get(state, "model")
        fused = [Bundle(tensors=self._fused(state, i, params, b)) for i, b in enumerate(received)]
        return state | self.put(integrate(self.model, params, fused), "model")

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train as the other half does; make ready what is counted, and what is asked for."""
        state, uploads, reports = super().fit(state, received, data, turn)
        params, new = self.get(state, "model"), dict(state)
        new |= {name: one.clone() for name, one in state.items() if name.startswith("counted.")}
        sent = []
        for i, (upload, bundle) in enumerate(zip(uploads, received, strict=True)):
            if ASKED not in bundle.tensors:  # it is in no sum
                sent.append(Bundle(upload.examples))
                continue
            asks, asked = _asked(bundle, self._layers), bundle.bits(ASKED)
            counted_in, was_counted = (int(one) for one in bundle.floats(COUNTED))
            known = counted_in and counted_in == int(state[ROUND][i])
            before = [_of(state[name], i) for name in (CLUSTER, OF_UNITS)]
            # Whoever was not in the sum that counted has no part in slots.
            last, of_units = (
                before if known and was_counted else [np.full_like(c, -1) for c in before]
            )
            inside = _within(last, asked)
            held = upload.bits(fedsub.CLASSES)
            if (was_counted and not known) or (inside[~held] >= 0).any():
                # It lost its state, or a class: zeros of it would count as somebody's.
                sent.append(Bundle(upload.examples))
                continue
            parts = self._layout.empty()
            cluster = self._nearest(upload, bundle)
            parts[PEOPLE][_places(cluster)] = 1
            # In these clusters units are counted now, and rows will be asked for.
            self._add_prototypes(parts, inside, upload)
            parts[MEMBERS][_places(_within(of_units, asked))] = 1
            for layer in self._layers:
                self._add_rows(parts, state, i, of_units, params, layer, bundle)
                chosen = upload.bits(layer.name + fedsub.MASKS)
                parts[SELECTED + layer.name][_places(inside)] = chosen[inside >= 0]
                new[CHOSEN + layer.name][i] = torch.from_numpy(chosen)
            new[CLUSTER][i] = torch.from_numpy(cluster)
            new[OF_UNITS][i] = torch.from_numpy(inside)
            new[ROUND][i], new[ASKED_FOR][i] = turn.round, _hash(asks)
            numbers = self._layout.joined(parts, asks)
            sent.append(Bundle(upload.examples, tensors={NUMBERS: Floats(numbers)}))
        return new, sent, reports

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return what one client adds to a sum; each counts once, whatever its samples."""
        if NUMBERS not in upload.tensors or not np.isfinite(upload.floats(NUMBERS)).all():
            return NO_VECTOR
        return slots.levels_of(levels).vector(upload.floats(NUMBERS), 1)

    def vector_again(
        self,
        vector: Words,
        before: Levels,
        levels: Levels,
        examples: int,
        state: State,
        received: Bundle,
    ) -> Words:
        """Return a vector of other levels by these; all its numbers are slots."""
        if ASKED not in received.tensors:
            return NO_VECTOR
        if _hash(_asked(received, self._layers)) != int(state[ASKED_FOR][0]):
            return NO_VECTOR
        return slots.again(vector, len(vector) - BESIDE, before, levels, 1)

    def _add_prototypes(
        self, parts: Mapping[str, Array], cluster: NDArray[np.int64], upload: Bundle
    ) -> None:
        """Add a person's prototypes to those of its clusters."""
        part = upload.part(fedsub.PROTOTYPES)
        means = np.zeros((len(cluster), part.values.shape[1]), np.float32)
        means[part.at.rows] = part.values
        parts[PROTOTYPES][(*_places(cluster), 0)] = 1
        parts[PROTOTYPES][(*_places(cluster), slice(1, None))] = means[cluster >= 0]

    def _add_rows(
        self,
        parts: Mapping[str, Array],
        state: State,
        i: int,
        cluster: NDArray[np.int64],
        params: Params,
        layer: LayerWithUnits,
        bundle: Bundle,
    ) -> None:
        """Add a layer's rows that are asked for to those of the `i`-th client's clusters."""
        chosen = _of(state[CHOSEN + layer.name], i)
        at = _places(cluster)
        asked = bundle.bits(layer.name + ASKED_UNITS).reshape(*self._each, layer.units)
        shown = (chosen[cluster >= 0] & asked[at])[..., None]
        for rows in layer.rows:
            values = _of(unit_rows(params, rows), i)
            parts[rows.name][at] = np.concatenate([shown, shown * values], axis=2)

    def _nearest(self, upload: Bundle, bundle: Bundle) -> NDArray[np.int64]:
        """Return the open cluster that each class's prototype is nearest to, -1: it has none."""
        cluster = np.full(self.model.classes, -1, np.int64)
        opened, part = bundle.bits(OPEN), upload.part(fedsub.PROTOTYPES)
        centroids = bundle.floats(CENTROIDS).reshape(*opened.shape, -1)
        for y, rho in zip(
            part.at.held((self.model.classes,)).nonzero()[0], part.values, strict=True
        ):
            away = np.square(centroids[y] - rho).sum(1, dtype=np.float64)
            cluster[y] = np.where(opened[y], away, np.inf).argmin()
        return cluster

    def _fused(self, state: State, i: int, params: Params, bundle: Bundle) -> dict[str, Part]:
        """Return the rows that replace those of the `i`-th client."""
        cluster, found = _of(state[OF_UNITS], i), dict[str, Part]()
        at = _places(cluster)
        if OPEN not in bundle.tensors or not len(at[0]):
            return found
        if int(bundle.floats(COUNTED)[0]) != int(state[ROUND][i]):  # its clusters may be others now
            return found
        for layer in self._layers:
            by_all = bundle.bits(layer.name + SELECTED_BY_ALL).reshape(*self._each, layer.units)
            chosen = _of(state[CHOSEN + layer.name], i)[cluster >= 0]
            for rows in layer.rows:
                if rows.name + MEANS not in bundle.tensors:
                    continue
                part = bundle.part(rows.name + MEANS)
                known = part.at.held((by_all.size,))
                means = np.zeros((by_all.size, rows.width), np.float32)
                means[known] = part.values
                fused, replaced = fuse(
                    self.hyper.fusion,
                    self.hyper.fusion_reading,
                    means.reshape(*by_all.shape, -1)[at],
                    known.reshape(by_all.shape)[at],
                    by_all[at],
                    chosen,
                    _of(unit_rows(params, rows), i),
                )
                found[rows.name] = Floats.rows(replaced, fused[replaced])
        return found

    @property
    def _each(self) -> tuple[int, int]:
        """How many classes there are, and clusters of each."""
        return self.model.classes, fedsub_sums.clusters_of(self.hyper)

    @property
    def _layers(self) -> Sequence[LayerWithUnits]:
        return self.model.affine[: self.hyper.depth or None]

    @property
    def _layout(self) -> Layout:
        size = fedsub.prototype_size(self.model, self.hyper)
        return Layout.of(self.model, self.hyper, size)


def _places(cluster: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return classes and clusters of a person who is in one of each class, -1: in none."""
    inside = np.flatnonzero(cluster >= 0)
    return inside, cluster[inside]


def _within(cluster: NDArray[np.int64], held: Bools) -> NDArray[np.int64]:
    """Return the cluster of each class, -1 where `held`, of classes or of clusters, says no."""
    if held.ndim == 2:
        held = np.take_along_axis(held, np.maximum(cluster, 0)[:, None], 1)[:, 0]
    return np.where(held, cluster, -1)


def _asked(bundle: Bundle, layers: Sequence[LayerWithUnits]) -> dict[str, Bools]:
    """Return what a download asks for, as :meth:`Layout.wanted` takes it."""
    names = OPEN, ASKED, *(layer.name + ASKED_UNITS for layer in layers)
    return {name: bundle.bits(name) for name in names}


def _hash(asks: Mapping[str, Bools]) -> int:
    """Return a name of what is asked for, of 63 bits."""
    digest = hashlib.sha256(b"".join(np.packbits(asks[name]).tobytes() for name in sorted(asks)))
    return int.from_bytes(digest.digest()[:8], "little") >> 1


def fuse(
    fusion: str, reading: str, means: Array, known: Bools, by_all: Bools, chosen: Bools, own: Array
) -> tuple[Array, Bools]:
    """Fuse a layer's rows for one person, by its own classes (FedSub, eq. 6, 7, 9, 10).

    Parameters
    ----------
    means : of the clusters that the person is in, float32 [classes, units, width].
    known : of which units there are means, bool [classes, units].
    by_all : which of these all people of the cluster selected, bool [classes, units].
    chosen : which units the person selected, bool [classes, units].
    own : the person's rows, float32 [units, width].

    Returns
    -------
    fused : float32 [units, width].
    replaced : bool [units]; the person keeps its own rows elsewhere.
    """
    taken = known & by_all if fusion != "avg" else known
    own_part = np.zeros(len(own), np.float32)
    if fusion == "overlapping":
        replaced: Bools = np.logical_and.reduce(taken & chosen)
    elif fusion == "avg" and reading == "own":
        taken = taken & chosen
        replaced = np.logical_or.reduce(taken)
        own_part = 1 - taken.mean(0, dtype=np.float32)
    else:
        replaced = np.logical_or.reduce(taken)
    share = taken / np.maximum(taken.sum(0), 1) * (1 - own_part)
    fused = np.einsum("yu,yuw->uw", share, means) + own_part[:, None] * own
    return fused.astype(np.float32), replaced


def _of(tensor: Tensor, i: int) -> NDArray[Any]:
    """Return one client's part of a tensor, wherever that lies."""
    found: NDArray[Any] = tensor[i].cpu().numpy()
    return found
