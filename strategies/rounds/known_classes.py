"""Bundles of devices that know fewer classes than the run: cut for them, and widened from them.

Such a device has the run's first classes alone: the first entries of each axis that counts classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle, Declaration, Floats, Part

Shape = tuple[int, ...]


def cut_to(bundle: Bundle, known: Declaration, run: Declaration) -> Bundle:
    """Return a download with the entries alone that a device knows.

    Parameters
    ----------
    bundle : as the run declares it, in `run`.
    known : what the device declares; it lacks tensors of classes that it does not know.
    """
    tensors: dict[str, Part] = {}
    for name, part in bundle.tensors.items():
        if name not in known:
            continue
        of, whole = known[name].shape, run[name].shape
        # A method may have made it for the device: what it counts is then known to it alone.
        made = part.values.shape == of and (not isinstance(part, Floats) or part.at.everywhere)
        some = part if of == whole or made else _first(part, of, whole)
        if not (known[name].optional and isinstance(some, Floats) and not some.values.size):
            tensors[name] = some
    return replace(bundle, tensors=tensors)


def widened_to_run(bundle: Bundle, known: Declaration, run: Declaration) -> Bundle:
    """Return an upload as the run declares it: of classes that the device does not know nothing.

    Counts, scores, sums and masks are 0 there. Of a model's tensors the numbers get a place.
    """
    tensors = dict(bundle.tensors)
    for name, part in bundle.tensors.items():
        of, whole = known[name].shape, run[name].shape
        if of == whole:
            continue
        if not isinstance(part, Floats):
            tensors[name] = type(part)(_zeros_behind(part.values, whole))
        elif part.at.elements is not None:
            mask = _zeros_behind(part.at.elements, whole)
            tensors[name] = Floats(part.values, Placement(elements=mask))
        elif run[name].exact and part.at.everywhere:
            tensors[name] = Floats(_zeros_behind(part.values, whole))
        else:
            leading = Placement.leading(of, whole)
            rows = leading.rows if part.at.rows is None else None  # those that came, else
            at = Placement(rows, leading.columns).of(part.at)
            tensors[name] = Floats(part.values, at)
    return replace(bundle, tensors=tensors)


def _first(part: Part, of: Shape, whole: Shape) -> Part:
    """Return a part of a tensor of shape `whole` as a part of its first entries, of shape `of`."""
    first = tuple(map(slice, of))
    if not isinstance(part, Floats):
        return type(part)(np.ascontiguousarray(part.values[first]))
    if part.at.elements is not None:
        spread = np.zeros(whole, np.float32)
        spread[part.at.elements] = part.values
        mask = np.ascontiguousarray(part.at.elements[first])
        return Floats.elements(mask, spread[first][mask])
    # Along an axis of which all entries came, `first` counts them; else those that are known.
    index: list[slice | NDArray[np.bool_]] = list(first)
    named = [part.at.rows, part.at.columns]
    for axis, one in enumerate(named):
        if one is not None:
            named[axis], index[axis] = one[one < of[axis]], one < of[axis]
    values: NDArray[Any] = part.values
    for axis, some in enumerate(index):
        values = values[(slice(None),) * axis + (some,)]
    rows, columns = named
    return Floats(np.ascontiguousarray(values), Placement(rows, columns))


def _zeros_behind(values: NDArray[Any], whole: Shape) -> NDArray[Any]:
    """Return values in the first entries of an array of shape `whole`, 0 behind them."""
    found: NDArray[Any] = np.zeros(whole, values.dtype)
    found[tuple(map(slice, values.shape))] = values
    return found
