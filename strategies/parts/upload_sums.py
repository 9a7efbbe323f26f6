"""Sums over uploads, made here, or by the workers that hold them (:mod:`.remote_numbers`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from fedsub_core.exact_sums import Sums, add_up, greatest
from fedsub_core.remote_numbers import RemoteNumbers
from fedsub_core.wire.bundles import Bundle, FloatArray


def summed(values: Sequence[FloatArray], weights: Sequence[float]) -> Sums:
    """Return the sum of uploads' numbers by weights, which are 1 together at most, [numbers]."""
    # Who was shortened to next to nothing makes nobody's numbers coarser.
    bound = fsum(by * greatest(one) for by, one in zip(weights, values, strict=True))
    if remote := _all_remote(values):
        of = {one.client: weight for one, weight in zip(remote, weights, strict=True)}
        return remote[0].holder.summed(remote[0].name, of, bound)
    return add_up(zip(values, weights, strict=True), values[0].size, bound)


def remote_lengths(
    uploads: Mapping[str, Bundle], start: Mapping[str, FloatArray]
) -> list[float] | None:
    """Return the squared length of each upload's way from `start`; None where some are here."""
    parts = [upload.part(name) for upload in uploads.values() for name in start]
    remote = _all_remote([part.values for part in parts])
    if not remote or not all(part.at.everywhere for part in parts):
        return None
    lengths = remote[0].holder.squared_lengths(start)
    return [lengths[one.client] for one in remote[:: len(start)]]


def thinned(values: FloatArray, step: int) -> FloatArray:
    """Return every `step`-th of an upload's numbers, wherever they are."""
    one: Any = values
    if isinstance(one, RemoteNumbers):
        return one.holder.thinned(one.client, one.name, step)
    return values.reshape(-1)[::step]


def _all_remote(values: Sequence[Any]) -> list[RemoteNumbers]:
    """Return the numbers, if none of them is here."""
    remote = [one for one in values if isinstance(one, RemoteNumbers)]
    return remote if len(remote) == len(values) else []
