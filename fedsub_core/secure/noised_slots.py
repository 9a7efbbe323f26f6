"""What a person adds to FedSub's secure sums where these get noise (``dp-noise``).

Slots are those of :mod:`fedsub_core.secure.cluster_slots`, but all people of a cluster add all
rows. To count who selected which unit takes many numbers, and noise on these hides the rest. So
selection stays on the device. Of rows people add how far these are from everybody's last mean, so
that they are short. Counts stand apart: they have bounds of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

from fedsub_core.secure.bounds import Bounded
from fedsub_core.secure.cluster_slots import MEMBERS, PEOPLE, PROTOTYPES, Asked, Layout

#: How many parts are of clusters: counts, prototypes and rows.
OF_CLUSTERS = 3


def longest_counts(layout: Layout) -> float:
    """Return the L2 norm of counts: a person is in a cluster of each class, now and as counted."""
    return sqrt(2 * layout.each[0])


def without_units(layout: Layout) -> Layout:
    """Return where each number of a vector stands that counts nothing by units."""
    each = layout.each
    shapes: dict[str, tuple[int, ...]] = {PEOPLE: each, MEMBERS: each}
    shapes[PROTOTYPES] = *each, layout.size
    for layer in layout.layers:
        shapes |= {own.name: (*each, layer.units, own.width) for own in layer.rows}
    return replace(layout, shapes=shapes | {name: layout.shapes[name] for name in layout.beside})


def bounded(
    layout: Layout, asked: Asked, rows: float, prototypes: float, beside: Mapping[str, float]
) -> tuple[Bounded, ...]:
    """Return the parts of a vector, and how long one person's are.

    Parameters
    ----------
    layout : without units.
    asked : as in :meth:`Layout.length`.
    rows, prototypes : how long those are, all classes' together.
    beside : the bound of each part that is of no cluster; devices need not shorten it.
    """
    sizes = layout.sizes(asked)
    of_rows = sum(sizes[own.name] for layer in layout.layers for own in layer.rows)
    return (
        Bounded(sizes[PEOPLE] + sizes[MEMBERS], longest_counts(layout)),
        Bounded(sizes[PROTOTYPES], prototypes, "dp-clip-prototypes"),
        Bounded(of_rows, rows, "dp-clip"),
        *(Bounded(sizes[name], beside[name]) for name in layout.beside),
    )
