"""Everybody's sums, by how many features people have: a weak device has the first ones alone.

People who have as many stand together: those who have all in ``everybody.gram`` and
``everybody.cross``, others in ``everybody.gram/<features>`` and so on. Whoever is sent sums is sent
those over all people who have its features, of these features. So every number is a sum over the
same samples, and sums are those of a federation in which all others' features were never computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from fedsub_core.closed_form.grids import packed
from fedsub_core.closed_form.sums import Statistics, total
from fedsub_core.method_parts.ridge_tensors import CROSS, EVERYBODY, GRAM
from strategies.methods.fedsub_ridge.people import key, width, without
from strategies.methods.fedsub_ridge.pooling import counts_as, resummed
from strategies.rounds.server_half import State

_GRAM, _CROSS = f"{EVERYBODY}.{GRAM}", f"{EVERYBODY}.{CROSS}"


def nobodys(features: int, classes: int) -> Statistics:
    """Return sums over no sample."""
    cross = np.zeros((classes, features + 1), np.int64)
    return Statistics(np.zeros(packed(features), np.int64), cross)


def by_features(state: State) -> dict[int, Statistics]:
    """Return the sums of those who have as many features, by how many; most first."""
    suffixes = [name.removeprefix(_GRAM) for name in state if name.startswith(_GRAM)]
    found = [
        Statistics(state[_GRAM + end].numpy(), state[_CROSS + end].numpy()) for end in suffixes
    ]
    return {one.features: one for one in sorted(found, key=lambda one: -one.features)}


def noted(sums: Statistics, most: int) -> State:
    """Return a part of the state: sums of those who have as many features, of `most` there are."""
    gram, cross = torch.from_numpy(sums.gram), torch.from_numpy(sums.cross)
    if sums.features == most:
        return {_GRAM: gram, _CROSS: cross}
    return {key(_GRAM, str(sums.features)): gram, key(_CROSS, str(sums.features)): cross}


def summed_anew(before: State, after: State, bound: float) -> State:
    """Return the state `after` some people's sums changed, with everybody's brought up to that.

    `bound` is :func:`~strategies.methods.fedsub_ridge.pooling.counts_as`'s. Of features that nobody
    has any more nothing stays, but for the run's own.
    """
    known = by_features(before)
    most = max(known)
    was, now = _counted(before, bound), _counted(after, bound)
    left = {name: t for name, t in after.items() if not name.startswith((_GRAM, _CROSS))}
    for features in {most} | now.keys():
        sums = known.get(features, nobodys(features, len(known[most].cross)))
        of = was.get(features, {}), now.get(features, {})
        left |= noted(resummed(sums, before, after, *of), most)
    return left


def without_sums(state: State, clients: Iterable[str], bound: float) -> State:
    """Return the state without some people's tensors, and everybody's sums without theirs.

    `bound` is :func:`summed_anew`'s.
    """
    for client in clients:
        state = summed_anew(state, without(state, client), bound)
    return state


def over_all(sums: Mapping[int, Statistics], features: int) -> Statistics:
    """Return the sums over all who have the first so many features, of these.

    `sums` is :func:`by_features`.
    """
    some = next(iter(sums.values()))
    parts = [one.first(features) for held, one in sums.items() if held >= features]
    return total([nobodys(features, len(some.cross)), *parts])


def _counted(state: State, bound: float) -> dict[int, dict[str, int]]:
    """Return as how many samples each person counts, by how many features people have."""
    found: dict[int, dict[str, int]] = {}
    for client, samples in counts_as(state, bound).items():
        found.setdefault(width(state, client), {})[client] = samples
    return found
