"""Sums over people, and everybody's equations: nobody counts for more than most others."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.sending import unflat
from fedsub_core.closed_form.sums import Statistics
from strategies.averaging import MOST_ADDED
from strategies.fedsub_ridge.people import counted, equations, facts, people
from strategies.rounds.server_half import State

#: By how much a temperature's loss counts as worse than the best one's at most, nats a sample.
MOST_LOSS = 3.0


def counts_as(state: State, most: float) -> dict[str, int]:
    """Return as how many samples each person counts: up to `most` times the median (0: all)."""
    known = {client: facts(state, client) for client in people(state)}
    trusted = {client: one.trusted for client, one in known.items() if one is not None}
    if not most or not trusted:
        return trusted
    bound = max(1, int(most * statistics.median_high(trusted.values())))
    return {client: min(samples, bound) for client, samples in trusted.items()}


def total(
    state: State, clients: Iterable[str], counts_as: Mapping[str, int], like: Statistics
) -> Statistics:
    """Return the sums over some people: exact, so that no order of theirs changes a bit.

    One person's are held at a time. `like` says how many numbers they are.
    """
    gram, cross = np.zeros_like(like.gram), np.zeros_like(like.cross)
    for client in clients:
        one = counted(state, client, counts_as)
        gram += one.gram
        cross += one.cross
    return Statistics(gram, cross)


def pooled(
    state: State, counts_as: Mapping[str, int], candidates: int, size: int
) -> NDArray[np.float64]:
    """Return everybody's equations in a row, a sample's worth, float64 [size]; 0 where none came.

    Candidates that say huge numbers would decide alone: a person's are shortened to
    ``MOST_ADDED`` times the median of everybody's.
    """
    found = {client: equations(state, client) for client in people(state)}
    rows, samples = [], []
    for client, row in found.items():
        if row is not None:
            rows.append(row.astype(np.float64))
            samples.append(counts_as[client])
    if not rows:
        return np.zeros(size)
    sizes = [float(np.trace(unflat(row, candidates, 1).gram)) for row in rows]
    bound = MOST_ADDED * statistics.median_low(sizes)
    losses = slice(candidates * (candidates + 3) // 2, None)
    mean = np.zeros(size)
    for row, weight, said in zip(rows, samples, sizes, strict=True):
        row[losses] = np.minimum(row[losses] - row[losses].min(), MOST_LOSS)
        row[: losses.start] *= min(1.0, bound / said) if said > 0 else 1.0
        mean += weight * row
    return mean / sum(samples)
