"""What a model sees of a graph: rows of its nodes, and rows that hold its edges.

A learner knows samples, and a graph convolution needs more: the features of nodes that are not
learnt from, and who is joined to whom. So a stack holds a client's whole graph, float32
``[rows, F + 1]``. The first number of a row says what it is: 1, 2, ... is a node of that number,
whose features follow; -1 is a row of edges, pairs of such numbers, with 0 where there are no more;
0 is padding. The nodes that are samples come first. All else stands behind them as context, without
a label: no row of one client is ever seen beside another's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.edges import Edges
from fedsub_core.pytorch import HERE, Tensor, torch

if HERE:
    from torch.overrides import handle_torch_function, has_torch_function

#: What the first number of a row says.
EDGES, PADDING = -1, 0


def graph_rows(
    features: NDArray[np.float32], edges: Edges, samples: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the rows of a client's samples, and those of its other nodes and its edges.

    Parameters
    ----------
    features : [nodes, F], as a model sees them.
    edges : rows of `features` that are joined.
    samples : int64 [n], the nodes that are samples, in the order in which they are wanted.
    """
    n, width = features.shape
    others = np.setdiff1d(np.arange(n), samples)
    nodes = np.empty((n, width + 1), np.float32)
    nodes[:, 0] = 1 + np.concatenate([samples, others])
    nodes[:, 1:] = features[nodes[:, 0].astype(np.int64) - 1]
    a_row = width // 2
    joined = np.zeros((-(-edges.shape[1] // a_row), width + 1), np.float32)
    pairs = np.zeros((len(joined) * a_row, 2), np.float32)
    pairs[: edges.shape[1]] = 1 + edges.T
    joined[:, 0] = EDGES
    joined[:, 1 : 1 + 2 * a_row] = pairs.reshape(len(joined), 2 * a_row)
    return nodes[: len(samples)], np.concatenate([nodes[len(samples) :], joined])


def real_rows(x: Tensor) -> int:
    """Return how many of ``x [rows, F + 1]`` stand before the padding behind them."""
    real = (x[:, 0] != PADDING).nonzero()
    return int(real[-1]) + 1 if len(real) else 0


class Graph(NamedTuple):
    """A client's graph, of rows that a model sees.

    Parameters
    ----------
    features : [rows, F], of nodes; 0 in other rows.
    source, target : int64 [e], rows: every edge in both directions, and each node to itself.
    """

    features: Tensor
    source: Tensor
    target: Tensor


def graph_of(x: Tensor) -> Graph:
    """Return the graph in ``x [rows, F + 1]``, in whatever order; edges of absent nodes count not.

    A pass that is watched for a model's units sees one call, of samples alone.
    """
    if has_torch_function((x,)):
        made: Graph = Graph(*handle_torch_function(graph_of, (x,), x))
        return made
    number = x[:, 0].long()
    node = number > 0
    rows = node.nonzero().squeeze(1)
    pairs = x[number == EDGES, 1:]
    ends = pairs[:, : pairs.shape[1] // 2 * 2].reshape(-1, 2).long()
    most = int(torch.cat([number, ends.flatten()]).max())
    place = torch.full((most + 1,), -1, device=x.device)
    place[number[rows]] = rows
    source, target = place[ends[(ends > 0).all(1)]].unbind(1)
    there = (source >= 0) & (target >= 0)
    source, target = source[there], target[there]
    return Graph(
        x[:, 1:] * node.unsqueeze(1),
        torch.cat([source, target, rows]),
        torch.cat([target, source, rows]),
    )


def propagate(h: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Return ``D^-1/2 (A + I) D^-1/2 h`` of ``h [rows, units]``: what a node's neighbours say.

    Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017,
    eq. 2. Edges are a :class:`Graph`'s, which go both ways and join each node to itself. Rows that
    no edge ends in are 0.
    """
    if has_torch_function((h, source, target)):
        made: Tensor = handle_torch_function(propagate, (h, source, target), h, source, target)
        return made
    degree = torch.bincount(target, minlength=len(h)).to(h.dtype)
    weight = (degree[source] * degree[target]).rsqrt()
    matrix = torch.sparse_coo_tensor(
        torch.stack([target, source]), weight, (len(h), len(h)), check_invariants=False
    )
    mixed: Tensor = torch.sparse.mm(matrix, h)
    return mixed
