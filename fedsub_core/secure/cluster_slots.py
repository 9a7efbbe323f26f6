"""What a person adds to FedSub's secure sums of each class and cluster, and in which order.

Each round counts by class and cluster who is in it. Of clusters that enough people are in, the next
round asks for prototypes, and counts who selected which unit. Of units that enough people selected,
the round after asks for rows. What was asked for stands behind a one, and is of who was counted.

All classes of a person share one set of rows. So a unit's rows are asked for in one class at a
time, in turn: people who have a class and lack another would differ in few people, and what these
added could be read off the difference of two slots. Clusters of a class have nobody in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.methods.fedsub import SubnetworkHyperparameters, prototype_size
from fedsub_core.methods.fedsub_sums import ASKED, ASKED_UNITS, OPEN, clusters_of
from fedsub_core.models.architecture import Architecture, LayerWithUnits

Array = NDArray[np.floating]
Asked = Mapping[str, NDArray[np.bool_]]

#: In a vector, before the rows' own: by class and cluster who is in it now, and of whose units were
#: counted in it; a one and a prototype; by layer those who selected a unit.
PEOPLE, MEMBERS, PROTOTYPES, SELECTED = "people", "members", "prototypes", "selected."


@dataclass(frozen=True)
class Layout:
    """Where each number of a vector stands.

    Parameters
    ----------
    shapes : of its parts, by name, in their order; of prototypes and rows the last axis has a one
        and the numbers themselves.
    layers : those whose units are shared.
    size : numbers of a prototype.
    beside : of parts of no cluster, by name, the mask that asks for it; "": it is in each round.
    """

    shapes: Mapping[str, tuple[int, ...]]
    layers: Sequence[LayerWithUnits]
    size: int
    beside: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Architecture,
        hyper: SubnetworkHyperparameters,
        beside: Mapping[str, tuple[int, ...]] | None = None,
        asked: Mapping[str, str] | None = None,
    ) -> Layout:
        """Return a model's layout.

        Parameters
        ----------
        beside : shapes of parts of no cluster, by name.
        asked : of those that are not added up in each round, the mask that asks for them.
        """
        beside, asked = dict(beside or {}), asked or {}
        each, size = (model.classes, clusters_of(hyper)), prototype_size(model, hyper)
        layers = model.affine[: hyper.depth or None]
        shapes: dict[str, tuple[int, ...]] = {PEOPLE: each, MEMBERS: each}
        shapes[PROTOTYPES] = *each, 1 + size
        for layer in layers:
            shapes[SELECTED + layer.name] = (*each, layer.units)
            for own in layer.rows:
                shapes[own.name] = (*each, layer.units, 1 + own.width)
        return cls(shapes | beside, layers, size, {name: asked.get(name, "") for name in beside})

    @property
    def each(self) -> tuple[int, ...]:
        """How many classes there are, and clusters of each."""
        return self.shapes[PEOPLE]

    def empty(self) -> dict[str, Array]:
        """Return parts of zeros but rows, which are large and hardly any asked for; float32."""
        shapes = self.shapes.items()
        return {n: np.zeros(s, np.float32) for n, s in shapes if n not in self._rows}

    def length(self, asked: Asked) -> int:
        """Return how many numbers a vector has.

        Parameters
        ----------
        asked : the masks of a download (``OPEN``, ``ASKED``, ``<layer>.asked``, others' own).
        """
        masks = self._masks(asked).items()
        return sum(int(mask.sum()) * prod(self.shapes[n][mask.ndim :]) for n, mask in masks)

    def joined(self, parts: Mapping[str, Array], asked: Asked) -> NDArray[np.float32]:
        """Return as one vector who is in open clusters, and of other parts what is asked for.

        Parameters
        ----------
        parts : of rows those that are asked for, [asked for, 1 + width]; of others all.
        """
        wanted = [
            (parts[name] if name in self._rows else parts[name][mask]).ravel()
            for name, mask in self._masks(asked).items()
        ]
        return np.concatenate(wanted).astype(np.float32)

    def split(self, numbers: Array, asked: Asked) -> dict[str, Array]:
        """Return the parts of a vector, with zeros for what was not asked for, float64."""
        parts, at = dict[str, Array](), 0
        for name, mask in self._masks(asked).items():
            parts[name] = np.zeros(self.shapes[name])
            end = at + parts[name][mask].size
            parts[name][mask] = numbers[at:end].reshape(-1, *self.shapes[name][mask.ndim :])
            at = end
        return parts

    @property
    def _rows(self) -> set[str]:
        return {own.name for layer in self.layers for own in layer.rows}

    def apart(self, asked: Asked) -> bool:
        """Return whether each unit's rows are asked for in one class at most."""
        every = [asked[layer.name + ASKED_UNITS] for layer in self.layers]
        classes = [of.reshape(*self.each, -1).any(1).sum(0) for of in every]
        return all((of <= 1).all() for of in classes)

    def _masks(self, asked: Asked) -> dict[str, NDArray[np.bool_]]:
        """Return which entries of each part's first axes travel."""
        every = dict.fromkeys(self.shapes, asked[ASKED]) | {PEOPLE: asked[OPEN]}
        for layer in self.layers:
            units = asked[layer.name + ASKED_UNITS].reshape(*self.each, layer.units)
            every |= {own.name: units for own in layer.rows}
        always = np.array(True)
        beside = {n: asked[mask].all() if mask else always for n, mask in self.beside.items()}
        return every | {name: np.asarray(one) for name, one in beside.items()}


def digest_of(asked: Asked) -> int:
    """Return a digest of what is asked for, of 63 bits."""
    every = b"".join(np.packbits(asked[name]).tobytes() for name in sorted(asked))
    return int.from_bytes(hashlib.sha256(every).digest()[:8], "little") >> 1


def one_class_each(able: NDArray[np.bool_], round: int) -> NDArray[np.bool_]:
    """Return which slots a round asks for: of each unit the clusters of one class, in turn.

    Parameters
    ----------
    able : of which slots enough people are sure, bool [classes, K, units].
    """
    classes = able.any(1)
    turn = (round + np.arange(able.shape[2])) % np.maximum(classes.sum(0), 1)
    found: NDArray[np.bool_] = able & (classes & (classes.cumsum(0) - 1 == turn))[:, None]
    return found
