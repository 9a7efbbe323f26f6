"""The papers' equations of fusion, element by element, and random rounds to try them on."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsub_core.methods.fedsub import FUSIONS, READINGS

Array = NDArray[Any]
#: Rows, masks, clusters, who contributes, scores.
Round = tuple[Array, Array, Array, Array, Array]
Fused = tuple[Array, Array]
#: Fusions that have readings, and every fusion in each of its readings.
READ = ("leadership", "avg")
WAYS = [(f, r) for f in FUSIONS for r in (READINGS if f in READ else READINGS[:1])]


def reference(
    fusion: str,
    rows: Array,
    masks: Array,
    clusters: Array,
    contributes: Array,
    omega: Array,
    reading: str = READINGS[0],
) -> Fused:
    """Equations 6-10 (and 6-7 of the first version), element by element, with plain loops."""
    n, units, width = rows.shape
    classes = clusters.shape[1]
    fused, replaced = np.zeros((n, units, width)), np.zeros((n, units), bool)

    def members(u: int, y: int) -> list[int]:
        if clusters[u, y] < 0:
            return []
        return [v for v in range(n) if clusters[v, y] == clusters[u, y] and contributes[v, y]]

    def weight(v: int, y: int, cluster: list[int]) -> float:
        if fusion == "leadership":
            return float(v == max(cluster, key=lambda k: (omega[k, y], -k)))
        total = sum(omega[k, y] for k in cluster)
        return float(omega[v, y]) / total if total > 0 else 1 / len(cluster)

    for u in range(n):
        of_u = {y: members(u, y) for y in range(classes) if members(u, y)}
        own = [y for y in range(classes) if contributes[u, y]]
        for j in range(units):
            holding = [y for y, c in of_u.items() if all(masks[v, y, j] for v in c)]
            if fusion in READ:
                givers = {
                    y: [v for v in c if masks[v, y, j] and weight(v, y, c) > 0]
                    for y, c in of_u.items()
                }
                got = [y for y in of_u if givers[y]]
                if reading == "own":
                    got = [y for y in got if masks[u, y, j] or not contributes[u, y]]
                    if len(got) < len(of_u) and not any(masks[u, y, j] for y in own):
                        continue
                if not got:
                    continue
                replaced[u, j] = True
                terms = []
                for y in of_u:
                    if y in got:
                        shares = [weight(v, y, of_u[y]) for v in givers[y]]
                        whole = sum(shares)
                        of_y = zip(givers[y], shares, strict=True)
                        terms.append(sum(rows[v, j].astype(float) * w for v, w in of_y) / whole)
                    elif reading == "own":
                        terms.append(rows[u, j].astype(float))
                fused[u, j] = np.mean(terms, axis=0)
                continue
            if fusion == "overlapping":
                over = list(of_u)
                mine = bool(own) and all(masks[u, y, j] for y in own)
                replaces = mine and bool(of_u) and holding == list(of_u)
            else:
                over, replaces = holding, bool(holding)
                if fusion == "overlapping-additive":
                    replaces = replaces and any(masks[u, y, j] for y in own)
            if not replaces:
                continue
            replaced[u, j] = True
            for i in range(width):
                value = 0.0
                for y in over:
                    for v in of_u[y]:
                        value += weight(v, y, of_u[y]) * rows[v, j, i] * masks[v, y, j] / len(over)
                fused[u, j, i] = value
    if fusion == "overlapping-additive":
        for u in range(n):
            before = [rows[u, j, i] for j in range(units) if replaced[u, j] for i in range(width)]
            for j in range(units):
                if replaced[u, j]:
                    fused[u, j] += rows[u, j]
            now = math.sqrt(sum(x * x for x in fused[u].ravel()))
            fused[u] *= math.sqrt(sum(x * x for x in before)) / now if now > 0 else 0
            replaced[u] &= now > 0
    return fused, replaced


def by_class(rows: Array, uses: Array) -> Array:
    """Return everybody's means [units, width]; `uses` bool [people, classes, units]."""
    classes = uses.sum(1)
    sums = np.einsum("uj,ujw->jw", classes, rows)
    means: Array = sums / np.maximum(classes.sum(0), 1)[:, None]
    return means


def federation(
    seed: int,
    n: int = 5,
    classes: int = 3,
    units: int = 6,
    width: int = 3,
    k: int = 3,
    have: float = 0.7,
    select: float = 0.7,
    imputed: float = 0.5,
    lost: float = 0,
) -> Round:
    """A random round: every client with a class is in a cluster, some of the others are imputed."""
    rng = np.random.default_rng(seed)
    contributes = rng.random((n, classes)) < have
    clusters = rng.integers(0, k, (n, classes))
    clusters[~contributes & (rng.random((n, classes)) >= imputed)] = -1
    clusters[rng.random((n, classes)) < lost] = -1  # subnetworks whose prototype never came
    masks = (rng.random((n, classes, units)) < select) & contributes[:, :, None]
    chosen: Array = np.logical_or.reduce(masks, axis=1)
    rows = rng.normal(size=(n, units, width)) * chosen[:, :, None]
    omega = rng.integers(0, 4, (n, classes)).astype(float)
    return rows.astype(np.float32), masks, clusters, contributes, omega


#: Rounds of all sizes and shapes.
rounds = st.builds(
    federation,
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    classes=st.integers(1, 4),
    units=st.integers(1, 6),
    width=st.integers(1, 4),
    k=st.integers(1, 4),
    have=st.floats(0, 1),
    select=st.sampled_from([0.3, 0.6, 0.9, 1.0]),
    imputed=st.floats(0, 1),
    lost=st.sampled_from([0, 0.3]),
)
