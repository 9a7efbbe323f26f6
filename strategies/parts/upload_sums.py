"""Sums over uploads, made here, or by the workers that hold them (:mod:`.remote_numbers`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from fedsub_core.exact_sums import Sums, add_up, greatest
from fedsub_core.remote_numbers import RemoteNumbers
from fedsub_core.wire.bundles import Bundle, FloatArray


def summed(values: Mapping[str, Sequence[FloatArray]], weights: Sequence[float]) -> dict[str, Sums]:
    """Return the sum of each tensor of uploads by weights, [numbers] each.

    Parameters
    ----------
    values : the numbers of every upload, by tensor.
    weights : of every upload; 1 together at most.
    """
    # Who was shortened to next to nothing makes nobody's numbers coarser.
    bounds = {
        name: fsum(by * greatest(one) for by, one in zip(weights, every, strict=True))
        for name, every in values.items()
    }
    if remote := _all_remote([one for every in values.values() for one in every]):
        clients = (one.client for one in remote[: len(weights)])
        return remote[0].holder.summed(dict(zip(clients, weights, strict=True)), bounds)
    sizes = [every[0].size for every in values.values()]
    terms = (([every[i] for every in values.values()], by) for i, by in enumerate(weights))
    return dict(zip(values, add_up(terms, sizes, [*bounds.values()]), strict=True))


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
