"""Clients that each hold a part of a graph, with the edges inside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.edges import Edges
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import NODE
from fedsub_core.errors import DataError
from fedsub_core.extras import require
from fedsub_core.options import choice, option
from fedsub_core.seeds import derive_seed
from fedsub_data.partitions.partition import Partition
from fedsub_data.partitions.pool import IntArray, deal, pooled
from fedsub_data.preparing.preparation import Counts

_METIS, _LOUVAIN = "metis", "louvain"


@dataclass(frozen=True)
class SubgraphsOptions:
    """Options of :func:`subgraphs`."""

    clients: int = option(10, "number of clients", minimum=2)
    by: str = choice(
        "auto",
        _METIS,
        _LOUVAIN,
        doc="metis: parts of nearly equal size with few edges between them; louvain: the "
        "communities that Louvain's method finds; auto: METIS if pymetis is installed",
    )


def subgraphs(
    federation: Federation, options: SubgraphsOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients that hold a part of the graph each: nodes, and the edges inside.

    ``metis`` (Karypis and Kumar, SIAM J. Sci. Comput. 1998) makes parts of nearly one size.
    ``louvain`` (Blondel et al., J. Stat. Mech. 2008) finds communities, as many as there are: one
    that is larger than a client's share is divided in the order in which a search from neighbour to
    neighbour meets its nodes, and each goes, the largest first, to the client with the fewest
    nodes. Edges between two clients are left out: nobody sees another's nodes.

    Raises ConfigError where the package that it is done by is not installed. Raises DataError where
    the federation is no graph, or has fewer than two nodes for each client.
    """
    if federation.card.sample != NODE:
        raise DataError(
            f"subgraphs: federation {federation.card.name!r} holds no graph; expected "
            "sample = 'node' in federation.toml, and edges. Choose another kind."
        )
    pool = pooled(federation)
    assert pool.edges is not None  # a graph's clients have some, or none of them
    n = len(pool.y)
    if n < 2 * options.clients:
        raise DataError(
            f"subgraphs: {options.clients} clients of at least 2 nodes need {2 * options.clients}; "
            f"got {n} nodes. Choose fewer clients."
        )
    by = options.by
    if by == "auto":
        by = _METIS if find_spec("pymetis") else _LOUVAIN
    require(f"subgraphs: by = {by}", "pymetis" if by == _METIS else "networkx")
    drawn = derive_seed(seed, "", 0, "partition: subgraphs") % 2**31
    divide = _by_metis if by == _METIS else _by_louvain
    hands = divide(pool.edges, n, options.clients, drawn)
    counts.add(f"divided by {by}", 1)
    return deal(pool, hands, counts)


def _by_metis(edges: Edges, n: int, parts: int, seed: int) -> list[IntArray]:
    import pymetis

    both = np.concatenate([edges, edges[::-1]], axis=1)
    both = both[:, np.lexsort(both[::-1])]
    starts = np.searchsorted(both[0], np.arange(n + 1))
    options = pymetis.Options(seed=seed)
    adjacency = pymetis.CSRAdjacency(starts, both[1])
    _, of = pymetis.part_graph(parts, adjacency, options=options)
    return [np.flatnonzero(np.array(of) == part) for part in range(parts)]


def _by_louvain(edges: Edges, n: int, parts: int, seed: int) -> list[IntArray]:
    import networkx

    graph: Any = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges.T.tolist())
    share = -(-n // parts)
    pieces: list[list[int]] = []
    for community in networkx.community.louvain_communities(graph, seed=seed):
        nodes = _met(graph, community) if len(community) > share else sorted(community)
        pieces += [nodes[i : i + share] for i in range(0, len(nodes), share)]
    hands: list[list[int]] = [[] for _ in range(parts)]
    for piece in sorted(pieces, key=lambda one: (-len(one), min(one))):
        min(hands, key=len).extend(piece)
    return [np.array(sorted(hand), np.int64) for hand in hands]


def _met(graph: Any, community: Iterable[int]) -> list[int]:
    """Return a community's nodes as a search meets them, which goes from neighbour to neighbour."""
    inside, met = set(community), dict[int, None]()
    for start in sorted(inside):
        queue = [] if start in met else [start]
        for node in queue:
            if node not in met:
                met[node] = None
                queue += sorted(set(graph[node]) & inside - met.keys())
    return list(met)


SUBGRAPHS = Partition(
    "subgraphs",
    "every client has a part of a graph, with the edges inside it (FRAMP)",
    SubgraphsOptions,
    subgraphs,
)
