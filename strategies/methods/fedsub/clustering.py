"""FedSub's prototype clustering: per class, k-means with K chosen by an index.

Source: FedSub (Campana and Delmastro, journal version), Algorithm 2 line 7 and the paragraph
below it: K-means per class, K from 2 upwards, least Davies-Bouldin index.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedsub_core.errors import ConfigError
from fedsub_core.options import suggestion
from strategies.methods.fedsub.indices import Floats, Labels, davies_bouldin, silhouette_badness
from strategies.methods.fedsub.ward import davies_bouldin_by_k, silhouette_by_k
from strategies.parts.dividing import by_first_appearance

log = logging.getLogger("fedsub")

RULES = ("dbi", "dbi-capped", "silhouette", "fixed")
# Starts of k-means per K; the best of them by inertia is kept.
RESTARTS = 10
# So many K, the best by Ward's clusters, are tried with k-means. For WISDM's, WESAD's and UCI HAR's
# people, and 70 % of them drawn twice, the K that trying all gives was Ward's first by the
# Davies-Bouldin index each time; by the silhouette among the first six.
FITTED = {"dbi": 3, "dbi-capped": 3, "silhouette": 8}
# Of more distinct prototypes than these, to judge every K takes minutes: some are tried, from the
# least to the greatest.
MOST, SOME = 5000, 12
# Prototypes are compared on a grid of this many steps across their spread, see `_distinct`.
GRID = 2**20


@dataclass(frozen=True)
class KSelection:
    """How the number of clusters is chosen: one of RULES, and K where the rule is ``fixed``."""

    rule: str
    k: int = 0


def parse_k_selection(text: str) -> KSelection:
    """Return the meaning of ``dbi``, ``dbi-capped``, ``silhouette`` or ``fixed:K`` (K >= 1).

    Raises ConfigError; the text is none of these; the message names the nearest.
    """
    rule, colon, number = text.partition(":")
    if rule == "fixed" and number.isascii() and number.isdigit() and int(number) >= 1:
        return KSelection(rule, int(number))
    if rule in RULES and rule != "fixed" and not colon:
        return KSelection(rule)
    hint = suggestion(rule, ("fixed:3", *RULES[:-1]))
    raise ConfigError(
        f"k_selection: got {text!r}, expected 'dbi', 'dbi-capped', 'silhouette' or 'fixed:K' "
        f"with a whole number K >= 1, such as 'fixed:3'.{hint}"
    )


def cluster(prototypes: NDArray[np.floating[Any]], k_selection: str, seed: int) -> Labels:
    """Cluster one class's prototypes [n, d]; return each one's cluster, int64 [n], 0..K-1.

    Clusters are numbered by first appearance. The partition does not depend on the order of the
    prototypes, and equal prototypes always share a cluster, so K never exceeds the number of
    distinct ones. With n = 2 there is no K in 2..n-1: two distinct prototypes then form two
    clusters (the paper's least K), except under ``fixed:1``. One prototype is one cluster.

    Parameters
    ----------
    prototypes : float [n, d]
        Finite, n >= 1.
    k_selection : str
        ``dbi``: K = 2..n-1, least Davies-Bouldin index. ``dbi-capped``: the same with
        K <= max(2, floor(sqrt(n))). ``silhouette``: K = 2..n-1, greatest mean silhouette.
        ``fixed:K``: K, or as many as there are distinct prototypes. Ties: the smallest K. Of more
        than ``FITTED`` K those are tried whose clusters by Ward's method are best.
    seed : int
        Seed of k-means++, >= 0, of any size.

    Raises ConfigError if `k_selection` cannot be parsed.
    """
    selection = parse_k_selection(k_selection)
    points, counts, inverse = _distinct(prototypes)
    n, distinct = len(prototypes), len(points)
    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    with threadpool_limits(1):
        if selection.rule == "fixed":
            labels = _partition(points, counts, min(selection.k, distinct), state)
        elif distinct <= 2:
            labels = np.arange(distinct)
        else:
            most = max(2, isqrt(n)) if selection.rule == "dbi-capped" else n
            badness = silhouette_badness if selection.rule == "silhouette" else davies_bouldin
            candidates = range(2, min(most, n - 1, distinct) + 1)
            tried = _promising(points, counts, candidates, selection.rule, state)
            partitions = (_partition(points, counts, k, state) for k in tried)
            labels = min(partitions, key=badness(points, counts))  # the first of equal ones
    return by_first_appearance(labels[inverse])


def cluster_classes(
    prototypes: Mapping[int, NDArray[np.floating[Any]]],
    k_selection: str,
    seeds: Mapping[int, int],
    workers: int,
) -> dict[int, Labels]:
    """Cluster every class, `workers` classes at a time; see :func:`cluster`.

    Parameters
    ----------
    prototypes : mapping of class to float [n of that class, d]
    k_selection : str
    seeds : mapping of class to int
        A seed for each class in `prototypes`.
    workers : int
        Threads, >= 1; the result does not depend on it.
    """
    # The outer limit makes the inner ones agree on what they restore: a thread that read the
    # process-wide limit while another held it would otherwise leave it lowered for good.
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        jobs = {y: pool.submit(cluster, prototypes[y], k_selection, seeds[y]) for y in prototypes}
        return {y: job.result() for y, job in jobs.items()}


def _distinct(prototypes: NDArray[np.floating[Any]]) -> tuple[Floats, Labels, Labels]:
    """Return the distinct prototypes in a canonical order, how often each occurs, and which it is.

    Prototypes are moved to a grid of whole numbers across their spread. k-means and both indices
    do not change under shift and scale, and prototypes that k-means could not tell apart by
    rounding (closer than a millionth of the spread) become one, so K distinct centres exist
    wherever K is tried and nothing is divided by a vanishing distance.
    """
    exact = prototypes.astype(np.float64)
    spread = np.ptp(exact) or 1.0
    grid = np.rint((exact - exact.min()) / spread * GRID)
    points, inverse, counts = np.unique(grid, axis=0, return_inverse=True, return_counts=True)
    return points, counts.astype(np.int64), inverse.reshape(-1)


def _promising(
    points: Floats, counts: Labels, candidates: Sequence[int], rule: str, state: int
) -> list[int]:
    """Return the K that are worth all of k-means' restarts, ascending."""
    if len(candidates) <= FITTED[rule]:
        return list(candidates)
    if len(points) > MOST:
        if rule != "dbi-capped":
            log.warning(
                "fedsub.k-selection=%s: of %d numbers of clusters only %d are tried, as there are "
                "%d prototypes of a class; dbi-capped and fixed:K leave fewer out",
                *(rule, len(candidates), SOME, len(points)),
            )
        some = np.geomspace(candidates[0], candidates[-1], SOME).round().astype(int)
        index = silhouette_badness if rule == "silhouette" else davies_bouldin
        judged = index(points, counts)
        bad = {int(k): judged(_partition(points, counts, int(k), state, 1)) for k in some}
    elif rule == "silhouette":
        bad = {k: -score for k, score in silhouette_by_k(points, counts).items()}
    else:
        bad = davies_bouldin_by_k(points, counts, candidates[-1])
    # As many clusters as distinct prototypes: there is nothing to try but to judge it.
    best = sorted((k for k in candidates if k in bad), key=lambda k: (bad[k], k))[: FITTED[rule]]
    return sorted(best) + [k for k in candidates if k == len(points)]


def _partition(
    points: Floats, counts: Labels, k: int, state: int, restarts: int = RESTARTS
) -> Labels:
    """Return the k-means labels [m] of points [m, d] that count `counts` times each."""
    if k == len(points):
        return np.arange(k)
    from sklearn.cluster import KMeans

    means = KMeans(k, n_init=restarts, random_state=state).fit(points, sample_weight=counts)
    return by_first_appearance(means.labels_)
