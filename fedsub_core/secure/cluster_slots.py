"""What a person adds to FedSub's secure sums of each class and cluster, and in which order.

Each round counts by class and cluster who is in it. Of clusters that enough people are in, the next
round asks for prototypes, and counts who selected which unit. Of units that enough people selected,
the round after asks for rows. What was asked for stands behind a one, and is of who was counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    beside : parts of no cluster, which everybody adds in each round.
    """

    shapes: Mapping[str, tuple[int, ...]]
    layers: Sequence[LayerWithUnits]
    size: int
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        model: Architecture,
        hyper: SubnetworkHyperparameters,
        beside: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Layout:
        """Return a model's layout; `beside`: shapes of parts of no cluster, by name."""
        beside = dict(beside or {})
        each, size = (model.classes, clusters_of(hyper)), prototype_size(model, hyper)
        layers = model.affine[: hyper.depth or None]
        shapes: dict[str, tuple[int, ...]] = {PEOPLE: each, MEMBERS: each}
        shapes[PROTOTYPES] = *each, 1 + size
        for layer in layers:
            shapes[SELECTED + layer.name] = (*each, layer.units)
            for own in layer.rows:
                shapes[own.name] = (*each, layer.units, 1 + own.width)
        return cls(shapes | beside, layers, size, tuple(beside))

    @property
    def each(self) -> tuple[int, ...]:
        """How many classes there are, and clusters of each."""
        return self.shapes[PEOPLE]

    def empty(self) -> dict[str, Array]:
        """Return parts of zeros, float32."""
        return {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}

    def length(self, asked: Asked) -> int:
        """Return how many numbers a vector has.

        Parameters
        ----------
        asked : the masks of a download (``OPEN``, ``ASKED`` and ``<layer>.asked``).
        """
        masks = self._masks(asked).items()
        return sum(int(mask.sum()) * prod(self.shapes[name][mask.ndim :]) for name, mask in masks)

    def joined(self, parts: Mapping[str, Array], asked: Asked) -> NDArray[np.float32]:
        """Return as one vector who is in open clusters, and of other parts what is asked for."""
        wanted = [parts[name][mask].ravel() for name, mask in self._masks(asked).items()]
        return np.concatenate(wanted).astype(np.float32)

    def split(self, numbers: Array, asked: Asked) -> dict[str, Array]:
        """Inverse of :meth:`joined`, with zeros for what is not wanted, float64."""
        parts, at = dict[str, Array](), 0
        for name, mask in self._masks(asked).items():
            parts[name] = np.zeros(self.shapes[name])
            end = at + parts[name][mask].size
            parts[name][mask] = numbers[at:end].reshape(-1, *self.shapes[name][mask.ndim :])
            at = end
        return parts

    def _masks(self, asked: Asked) -> dict[str, NDArray[np.bool_]]:
        """Return which entries of each part's first axes travel."""
        every = dict.fromkeys(self.shapes, asked[ASKED]) | {PEOPLE: asked[OPEN]}
        for layer in self.layers:
            units = asked[layer.name + ASKED_UNITS].reshape(*self.each, layer.units)
            every |= {own.name: units for own in layer.rows}
        return every | dict.fromkeys(self.beside, np.array(True))
