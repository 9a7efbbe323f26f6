"""The edges of a client's graph, int64 ``[2, m]``: rows of its ``x`` that are joined.

Edges have no direction. A node joined to itself and a pair said twice add nothing, and are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError

Edges: TypeAlias = NDArray[np.int64]

#: Makes the error of what it is about, what came, what was expected and what to do.
Refuse = Callable[[str, object, str, str], DataError]


def plain_edges(edges: Edges) -> Edges:
    """Return each pair once, the smaller row first, in their order; none joins a node to itself."""
    low, high = edges.min(axis=0, initial=2**62), edges.max(axis=0, initial=-1)
    pairs = np.unique(np.stack([low, high])[:, low != high], axis=1)
    return pairs.astype(np.int64)


def inner_edges(edges: Edges, rows: NDArray[np.int64], n: int) -> Edges:
    """Return the edges between two of `rows`, int64 [k], by their places in `rows`.

    `n` are the rows that there are.
    """
    place = np.full(n, -1, np.int64)
    place[rows] = np.arange(len(rows))
    ends = place[edges]
    return plain_edges(ends[:, (ends >= 0).all(axis=0)])


def check_edges(
    arrays: Mapping[str, Any], shape: tuple[int, ...], graph: bool, refused: Refuse
) -> Edges | None:
    """Return a file's edges, or refuse them; None where the samples are no nodes.

    Parameters
    ----------
    shape : of ``x``, [n, F].
    graph : whether the card says that samples are nodes.
    """
    if not graph:
        if "edges" in arrays:
            raise refused(
                "edges",
                "edges of samples that are no nodes",
                "them of sample = 'node' alone",
                "Say sample = 'node' in federation.toml, or leave edges out.",
            )
        return None
    if "since" in arrays:
        got, do = "nodes that come during the run", "Leave since out."
        raise refused("since", got, "a graph that is there from the start", do)
    if shape[1] < 2:
        got, do = "one feature of a node", "Add one, such as the node's degree."
        raise refused("x", got, "two at least, for edges travel in as many numbers", do)
    edges = arrays["edges"]
    if edges.dtype.kind not in "iu":
        raise refused("edges", edges.dtype, "an integer type", "Write rows of x as int64.")
    if edges.ndim != 2 or edges.shape[0] != 2:
        do = "Transpose it." if edges.ndim == 2 and edges.shape[1] == 2 else "Write pairs of rows."
        raise refused("edges", f"shape {edges.shape}", "[2, m]", do)
    wrong = np.flatnonzero(((edges < 0) | (edges >= shape[0])).any(axis=0))
    if len(wrong):
        one, other = edges[:, wrong[0]]
        expected, do = f"rows 0 to {shape[0] - 1} of x", "Correct the edges."
        raise refused(f"edges, column {wrong[0]}", f"{one} to {other}", expected, do)
    return plain_edges(edges.astype(np.int64))
