"""What a person adds to FedSub's secure sums of each class and cluster, and in which order.

Each round counts by class and cluster who is in it. Of clusters that enough people are in, the next
round asks for prototypes, and counts who selected which unit. Of units that enough people selected,
the round after asks for rows. What was asked for stands behind a one, and is of who was counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.methods.fedsub_sums import ASKED, ASKED_UNITS, OPEN, clusters_of
from fedsub_core.models.architecture import Architecture

Array = NDArray[np.floating]

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
    """

    shapes: Mapping[str, tuple[int, ...]]
    layer_of: Mapping[str, str]

    @classmethod
    def of(cls, model: Architecture, hyper: Any, size: int) -> Layout:
        """Return a model's layout, with prototypes of a size."""
        each = model.classes, clusters_of(hyper)
        layer_of: dict[str, str] = {}
        shapes: dict[str, tuple[int, ...]] = {PEOPLE: each, MEMBERS: each}
        shapes[PROTOTYPES] = *each, 1 + size
        for layer in model.affine[: hyper.depth or None]:
            shapes[SELECTED + layer.name] = (*each, layer.units)
            for own in layer.rows:
                shapes[own.name] = (*each, layer.units, 1 + own.width)
                layer_of[own.name] = layer.name
        return cls(shapes, layer_of)

    def wanted(self, asked: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return which numbers travel: who is in open clusters, and what is asked for of others.

        Parameters
        ----------
        asked : the masks of a download (``OPEN``, ``ASKED`` and ``<layer>.asked``).
        """
        masks = []
        for name, shape in self.shapes.items():
            of = asked[OPEN if name == PEOPLE else ASKED]
            if name in self.layer_of:
                of = asked[self.layer_of[name] + ASKED_UNITS].reshape(shape[:3])
            masks.append(
                np.broadcast_to(of.reshape(of.shape + (1,) * (len(shape) - of.ndim)), shape)
            )
        return np.concatenate([mask.ravel() for mask in masks])

    def empty(self) -> dict[str, Array]:
        """Return parts of zeros, float32."""
        return {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}

    def joined(
        self, parts: Mapping[str, Array], asked: Mapping[str, NDArray[np.bool_]]
    ) -> NDArray[np.float32]:
        """Return the wanted numbers of the parts as one vector."""
        every = np.concatenate([parts[name].ravel() for name in self.shapes])
        found: NDArray[np.float32] = every[self.wanted(asked)].astype(np.float32)
        return found

    def split(self, numbers: Array, asked: Mapping[str, NDArray[np.bool_]]) -> dict[str, Array]:
        """Inverse of :meth:`joined`, with zeros for what is not wanted, float64."""
        wanted = self.wanted(asked)
        every = np.zeros(len(wanted))
        every[wanted] = numbers
        ends = np.cumsum([prod(shape) for shape in self.shapes.values()])[:-1]
        parts = zip(self.shapes.items(), np.split(every, ends), strict=True)
        return {name: part.reshape(shape) for (name, shape), part in parts}
