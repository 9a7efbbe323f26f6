"""Units of a model: what a smaller model keeps or leaves out, and where its numbers then stand.

A unit is an output neuron, an output channel or a hidden unit of a recurrent layer. Units that can
only stay or go together are one group: those of layers whose outputs are added are the same units.
Classes and inputs are none. Source: Diao et al., HeteroFL, ICLR 2021, section 3 (nested units of
chains); here any choice of units of any model whose pass can be followed
(:mod:`fedsub_core.models.coupling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Floats, Part

if TYPE_CHECKING:
    from fedsub_core.models.model import Model

#: Group name to the units that are kept, int64, ascending. Groups that are not named keep all.
Units = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Member:
    """An axis of a tensor that a group's units own entries of.

    Parameters
    ----------
    tensor : its name; a parameter, a norm's statistic, or a constant of a module.
    axis : 0 or 1.
    owners : int64 ``[entries of the axis]``, which unit owns each; -1: none of this group. An
        LSTM's unit owns four rows, a channel before Flatten as many columns as it has positions.
    reads : whether these are weights by which a layer reads the units, as columns of a Linear
        layer; else they make the units: rows, biases, norms.
    """

    tensor: str
    axis: int
    owners: NDArray[np.int64]
    reads: bool = False


@dataclass(frozen=True, eq=False)
class UnitGroup:
    """Units that are chosen together, and everything that is theirs.

    Parameters
    ----------
    name : of the first layer that makes them.
    members : in the order in which the pass meets them.
    normed_together : whether a norm is over all of them, as LayerNorm: units that are left out are
        then something else than units that are 0.
    """

    name: str
    size: int
    members: tuple[Member, ...]
    normed_together: bool = False


def units_at(share: float, units: int) -> int:
    """Return how many of some units a share of them is, rounded up, at least one."""
    # 0.7 * 10 is 7.000000000000001 in floating point, and must not become 8.
    return max(1, ceil(share * units - 1e-9))


def first_units(model: Model, share: float) -> dict[str, NDArray[np.int64]]:
    """Return the first units of every group: :func:`units_at` a share.

    Raises ConfigError if the model's units are not known.
    """
    return {group.name: np.arange(units_at(share, group.size)) for group in model.unit_groups}


def first_of(model: Model, hyper: Any, capacity: float) -> Model:
    """Return the model with the first units alone that a device of a capacity can hold."""
    return model if capacity == 1 else model.narrow(first_units(model, capacity))[0]


def placements(
    groups: Sequence[UnitGroup], shapes: Mapping[str, Shape], units: Units
) -> dict[str, Placement]:
    """Return where the numbers of a model with these units alone stand in the whole one's.

    Parameters
    ----------
    shapes : of the whole model's tensors.
    units : by group; see :data:`Units`.

    Raises ConfigError if a group is unknown, keeps nothing, or its units do not ascend or do not
    exist.
    """
    _check(groups, units)
    left: dict[str, list[NDArray[np.int64] | None]] = {name: [None, None] for name in shapes}
    for group in groups:
        if group.name not in units:
            continue
        kept = np.zeros(group.size + 1, np.bool_)
        kept[units[group.name]] = kept[-1] = True  # the last entry answers for owner -1
        for member in group.members:
            if member.tensor not in shapes:
                continue
            own = np.flatnonzero(kept[member.owners])
            axes, axis = left[member.tensor], member.axis
            before = axes[axis]
            axes[axis] = own if before is None else np.intersect1d(before, own)
    return {name: _placement(axes, shapes[name]) for name, axes in left.items()}


def narrowed_groups(
    groups: Sequence[UnitGroup], units: Units, places: Mapping[str, Placement]
) -> tuple[UnitGroup, ...]:
    """Return the groups of a model with these units alone, whose tensors stand at `places`.

    They are not followed anew: of one unit a pass does not show whether values are mixed.
    """
    return tuple(_narrowed(group, units, places) for group in groups)


def _narrowed(group: UnitGroup, units: Units, places: Mapping[str, Placement]) -> UnitGroup:
    kept = units.get(group.name, np.arange(group.size))
    number = np.full(group.size + 1, -1)  # the last entry answers for owner -1
    number[kept] = np.arange(len(kept))
    members = []
    for member in group.members:
        at = places.get(member.tensor, Placement())
        entries = at.columns if member.axis else at.rows
        owners = number[member.owners if entries is None else member.owners[entries]]
        members.append(replace(member, owners=owners))
    return replace(group, size=len(kept), members=tuple(members))


def units_of(groups: Sequence[UnitGroup], shapes: Mapping[str, Shape]) -> Units:
    """Return the first units of each group, as many as tensors of these shapes have.

    Modules of the same shapes differ in their numbers alone, whatever units they were.
    """
    found: dict[str, NDArray[np.int64]] = {}
    for group in groups:
        for member in group.members:
            each = np.bincount(member.owners + 1, minlength=group.size + 1)
            if member.tensor in shapes and each[0] == 0 and len({*each[1:]}) == 1:
                count = shapes[member.tensor][member.axis] // int(each[1])
                found[group.name] = np.arange(min(max(count, 1), group.size))
                break
    return found


def units_in(
    groups: Sequence[UnitGroup], parts: Mapping[str, Part]
) -> dict[str, NDArray[np.int64]]:
    """Return the units of each group that a message's tensors have, ascending.

    As the first of a group's tensors in it says; a group that has none there is left out.
    """
    found = {}
    for group in groups:
        first = next((member for member in group.members if member.tensor in parts), None)
        if first is None:
            continue
        part = parts[first.tensor]
        assert isinstance(part, Floats)
        entries = part.at.columns if first.axis else part.at.rows
        owners = first.owners if entries is None else first.owners[entries]
        found[group.name] = np.unique(owners[owners >= 0])
    return found


def _placement(axes: Sequence[NDArray[np.int64] | None], shape: Shape) -> Placement:
    """Return what is kept of both axes; an axis that is kept whole is not said."""
    rows, columns = (
        None if own is None or len(own) == size else own
        for own, size in zip(axes, (*shape, 0, 0), strict=False)
    )
    return Placement(rows, columns)


def _check(groups: Sequence[UnitGroup], units: Units) -> None:
    sizes = {group.name: group.size for group in groups}
    for name, kept in units.items():
        if name not in sizes:
            raise ConfigError(f"units of {name!r}: expected a group of {', '.join(sizes)}")
        ascending = bool((np.diff(kept) > 0).all()) and len(kept) > 0
        if not ascending or kept[0] < 0 or kept[-1] >= sizes[name]:
            raise ConfigError(
                f"units of {name}: got {kept.tolist()}, expected ascending ones below {sizes[name]}"
            )
