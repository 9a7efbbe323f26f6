"""Subgraphs: everybody's nodes and inner edges, of one size, and what is lost is counted."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.partitions.label_skew import DirichletOptions
from fedsub_data.partitions.partitions import counted_partition
from fedsub_data.partitions.pool import pooled
from fedsub_papers.partitions.domains import DomainsOptions
from fedsub_papers.partitions.subgraphs import SubgraphsOptions
from fedsub_papers.tests import shapes

CARD = Card("papers", "topics", ("a", "b"), ("number", "q"), sample="node")
METIS = pytest.param(
    "metis", marks=pytest.mark.skipif(find_spec("pymetis") is None, reason="no pymetis: [graphs]")
)


def cliques(count: int, size: int, ring: bool = True) -> ClientData:
    """Return groups of nodes that are all joined; each group's first to the next group's."""
    inner = np.stack(np.triu_indices(size, 1))
    edges = [inner + size * i for i in range(count)]
    firsts = size * np.arange(count)
    edges += [np.stack([firsts[:-1], firsts[1:]])] if ring else []
    n = count * size
    x = np.column_stack([np.arange(n), np.zeros(n)]).astype(np.float32)
    return ClientData("graph", x, np.arange(n) % 2, edges=np.concatenate(edges, axis=1))


@pytest.mark.parametrize("by", ["louvain", METIS])
def test_cliques_are_found_and_what_joins_them_is_counted(by: str) -> None:
    whole = Federation(CARD, {"graph": cliques(5, 6)})
    made = counted_partition(whole, "subgraphs", SubgraphsOptions(5, by), 0)
    hands = [set(data.x[:, 0].astype(int)) for data in made.federation.clients.values()]
    assert sorted(map(min, hands)) == [0, 6, 12, 18, 24] and {len(one) for one in hands} == {6}
    for data in made.federation.clients.values():
        assert data.edges is not None and data.edges.shape == (2, 15)
    assert (made.counts["edges before"], made.counts["edges"]) == (79, 75)


@pytest.mark.parametrize("by", ["louvain", METIS])
def test_a_real_graph_is_divided_evenly_and_loses_few_edges(by: str, real_data: Path) -> None:
    whole = shapes.papers(real_data, people=4, each=100)
    made = counted_partition(whole, "subgraphs", SubgraphsOptions(6, by), 1)
    again = counted_partition(whole, "subgraphs", SubgraphsOptions(6, by), 1)
    sizes = [len(data.y) for data in made.federation.clients.values()]
    assert sum(sizes) == 418 and max(sizes) - min(sizes) <= 10
    assert made.counts["edges"] > 0.75 * made.counts["edges before"]
    for name, data in made.federation.clients.items():
        assert (data.x == again.federation.clients[name].x).all()


def test_a_community_above_a_clients_share_is_divided() -> None:
    """20 nodes that are all joined, for four people: 190 edges, of which 40 are inside."""
    whole = Federation(CARD, {"graph": cliques(1, 20)})
    made = counted_partition(whole, "subgraphs", SubgraphsOptions(4, "louvain"), 0)
    assert [len(data.y) for data in made.federation.clients.values()] == [5] * 4
    assert (made.counts["edges before"], made.counts["edges"]) == (190, 40)


def test_several_graphs_stand_side_by_side() -> None:
    both = {name: cliques(2, 3, ring=False) for name in ("a", "b")}
    pool = pooled(Federation(CARD, both))
    assert pool.edges is not None
    assert (pool.edges[:, 6:] - 6 == pool.edges[:, :6]).all() and pool.edges.max() == 11


def test_other_partitions_keep_inner_edges_and_count_them() -> None:
    both = {name: cliques(2, 8) for name in ("a", "b")}
    inner = 2 * 28 + 1
    made = counted_partition(Federation(CARD, both), "domains", DomainsOptions(2), 0)
    for data in made.federation.clients.values():
        assert data.edges is not None and data.edges.shape[1] == inner
    assert (made.counts["edges before"], made.counts["edges"]) == (2 * inner, 2 * inner)
    one = Federation(CARD, {"graph": cliques(1, 8)})
    made = counted_partition(one, "dirichlet", DirichletOptions(2, 100.0, 2), 0)
    own = [len(data.y) for data in made.federation.clients.values()]
    kept = sum(n * (n - 1) // 2 for n in own)
    assert (made.counts["edges before"], made.counts["edges"]) == (28, kept) and kept < 28


def test_what_cannot_be_divided_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((6, 2), np.float32)
    plain = Card("walks", "steps", ("a", "b"), ("p", "q"))
    steps = Federation(plain, {"c": ClientData("c", x, np.arange(6) % 2)})
    with pytest.raises(DataError, match="subgraphs: federation 'walks' holds no graph"):
        counted_partition(steps, "subgraphs", SubgraphsOptions(2), 0)
    graph = Federation(CARD, {"graph": cliques(2, 3)})
    with pytest.raises(DataError, match="4 clients of at least 2 nodes need 8; got 6 nodes"):
        counted_partition(graph, "subgraphs", SubgraphsOptions(4), 0)
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    for by, package in (("metis", "pymetis"), ("louvain", "networkx")):
        with pytest.raises(ConfigError, match=rf"by = {by} needs {package}.*'fedsub\[graphs\]'"):
            counted_partition(graph, "subgraphs", SubgraphsOptions(2, by), 0)
