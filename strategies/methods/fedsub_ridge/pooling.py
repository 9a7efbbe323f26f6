"""Sums over people, and everybody's equations: nobody counts for more than most others."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.sending import unflat
from fedsub_core.closed_form.summing import MOST_LOSS
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.method_parts.ridge_tensors import GRAM
from strategies.methods.fedsub_ridge.people import (
    counted,
    equations,
    facts,
    key,
    people,
    width,
)
from strategies.parts.clipping import MOST_ADDED
from strategies.rounds.server_half import State


def counts_as(state: State, most: float) -> dict[str, int]:
    """Return as how many samples each person counts: up to `most` times the median (0: all)."""
    known = {client: facts(state, client) for client in people(state)}
    trusted = {client: one.trusted for client, one in known.items() if one is not None}
    if not most or not trusted:
        return trusted
    bound = max(1, int(most * statistics.median_high(trusted.values())))
    return {client: min(samples, bound) for client, samples in trusted.items()}


def sum_over(
    state: State, clients: Iterable[str], counts_as: Mapping[str, int], like: Statistics
) -> Statistics:
    """Return the sums over some people: exact, so that no order of theirs changes a bit.

    One person's are held at a time. `like` says how many numbers they are: of people who have more
    features the first are summed, and people who have fewer are left out.
    """
    gram, cross = np.zeros_like(like.gram), np.zeros_like(like.cross)
    for client in clients:
        if width(state, client) < like.features:
            continue
        one = counted(state, client, counts_as).first(like.features)
        gram += one.gram
        cross += one.cross
    return Statistics(gram, cross)


def resummed(
    sums: Statistics,
    before: State,
    after: State,
    was: Mapping[str, int],
    now: Mapping[str, int],
) -> Statistics:
    """Return sums over people after some people's changed, of those before.

    Whole numbers: what was added is exactly what is taken away, and what is left is what a sum over
    those who are left gives.

    Parameters
    ----------
    sums : over those who `was` names, in the state `before`.
    was, now : who is in the sums before and after, and as how many samples each counts there.
    """
    stay = {
        client
        for client in was.keys() & now.keys()
        if was[client] == now[client] and after[key(GRAM, client)] is before[key(GRAM, client)]
    }
    left = sums - sum_over(before, was.keys() - stay, was, sums)
    return left + sum_over(after, now.keys() - stay, now, sums)


def pooled(
    state: State, counts_as: Mapping[str, int], candidates: int, size: int
) -> NDArray[np.float64]:
    """Return everybody's equations in a row, a sample's worth, float64 [size]; 0 where none came.

    Candidates that say huge numbers would decide alone: a person's are shortened to
    ``MOST_ADDED`` times the median of those that say anything. Of whoever has one sample a class
    they say nothing.
    """
    found = {client: equations(state, client) for client in people(state)}
    rows = {client: row.astype(np.float64) for client, row in found.items() if row is not None}
    mean = np.zeros(size)
    if not rows:
        return mean
    said = {c: float(np.trace(unflat(row, candidates, 1).gram)) for c, row in rows.items()}
    bound = MOST_ADDED * statistics.median_low([of for of in said.values() if of > 0] or [0.0])
    losses = candidates * (candidates + 3) // 2
    for client, own in rows.items():
        own[losses:] = np.minimum(own[losses:] - own[losses:].min(), MOST_LOSS)
        own[:losses] *= min(1.0, bound / said[client]) if said[client] > 0 else 1.0
        mean += counts_as[client] * own
    return mean / sum(counts_as[client] for client in rows)
