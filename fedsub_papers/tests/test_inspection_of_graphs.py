"""A look at graphs counts their edges, and nodes without one."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import Nodes
from fedsub_data.inspection.inspection import inspect_federation
from fedsub_data.inspection.tables import fact_rows
from fedsub_papers.tests import shapes


def test_a_look_counts_edges_and_isolated_nodes(real_data: Path) -> None:
    papers = shapes.papers(real_data, people=3, each=30)
    first = papers.clients["p00"]
    assert first.edges is not None
    kept = first.edges[:, (first.edges != 0).all(axis=0)]
    clients = {**papers.clients, "p00": replace(first, edges=kept)}
    found = inspect_federation(Federation(papers.card, clients))
    assert found.kind == "node" and found.shape == Nodes((64,))
    counted = [(len(one.y), one.edges) for one in clients.values() if one.edges is not None]
    edges = sum(one.shape[1] for _, one in counted)
    alone = sum(n - len(np.unique(one)) for n, one in counted)
    assert (found.edges, found.isolated) == (edges, alone) and alone >= 1
    assert found.as_dict()["edges"] == edges and found.as_dict()["sample"] == "node"
    said = {row[0]: row[1] for row in fact_rows(found)}
    assert said["one sample"] == "64 features of a node"
    assert said["edges"] == f"{edges:,}; {alone:,} nodes have none"
    assert "overlap of windows" not in said


def test_of_thousands_of_words_some_are_named(real_data: Path) -> None:
    papers = shapes.papers(real_data, people=2, each=20)
    wide = {n: replace(c, x=np.tile(c.x, 4)) for n, c in papers.clients.items()}
    card = replace(papers.card, features=tuple(f"word {i}" for i in range(256)))
    rows = fact_rows(inspect_federation(Federation(card, wide)))
    said = {row[0]: row[1] for row in rows}
    assert said["features"].endswith("word 99 and 156 more")
