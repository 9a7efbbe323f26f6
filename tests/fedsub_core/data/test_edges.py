"""Edges of a client's file: what is the same is one, what cannot be is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.card import Card, parse_card
from fedsub_core.data.client_file import check_client
from fedsub_core.data.edges import inner_edges, plain_edges
from fedsub_core.data.federation import ClientData, Federation, read_federation, write_federation
from fedsub_core.errors import DataError

CARD = Card("papers", "topics", ("a", "b"), ("p", "q"), sample="node")
X, Y = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 1, 0, 1])
NONE = np.empty((2, 0), np.int64)


def test_each_pair_counts_once_and_none_joins_a_node_to_itself() -> None:
    given = np.array([[2, 0, 1, 3, 0], [0, 2, 0, 3, 1]])
    assert plain_edges(given).tolist() == [[0, 0], [1, 2]]
    assert plain_edges(NONE).shape == (2, 0)


def test_some_nodes_keep_the_edges_between_them() -> None:
    ring = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    assert inner_edges(ring, np.array([3, 0, 1]), 4).tolist() == [[0, 1], [1, 2]]
    part = ClientData("c", X, Y, edges=ring).part(np.array([0, 2]))
    assert part.edges is not None and part.edges.shape == (2, 0)
    assert part.x.tolist() == [[0, 1], [4, 5]]


def test_a_graph_is_written_and_read_with_an_isolated_node(tmp_path: Path) -> None:
    graph = ClientData("c", X, Y, edges=np.array([[2, 0], [0, 2]]))
    write_federation(tmp_path / "f", Federation(CARD, {"c": graph}))
    back = read_federation(tmp_path / "f")
    assert back.card == CARD
    edges = back.clients["c"].edges
    assert edges is not None and edges.dtype == np.int64 and edges.tolist() == [[0], [2]]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"edges": None}, r"array 'edges' is missing: .*expected x, y, edges"),
        ({"edges": np.array([[0, 1], [1, 4]])}, r"edges, column 1: got 1 to 4, expected rows 0 to"),
        ({"edges": np.array([[0], [-1]])}, r"edges, column 0: got 0 to -1, expected rows 0 to 3"),
        ({"edges": np.array([[0.0], [1.0]])}, "edges: got float64, expected an integer type"),
        ({"edges": np.zeros((3, 2), int)}, r"edges: got shape \(3, 2\), expected .* Transpose"),
        ({"edges": np.array([0, 1])}, r"edges: got shape \(2,\), expected \[2, m\]"),
        ({"since": np.ones(4, int)}, "since: got nodes that come during the run"),
        ({"x": X.copy() * np.nan}, r"x, row 0, feature 0 \('p'\): got nan, expected a finite"),
        ({"y": np.array([0, 1, 2, 0])}, "y, row 2: got label 2, expected 0 to 1"),
        ({"x": X[:, :, None]}, r"x: got shape \(4, 2, 1\), expected \[n, 2\]"),
    ],
)
def test_what_is_no_graph_is_refused(changed: dict[str, Any], why: str) -> None:
    arrays = {"x": X, "y": Y, "edges": NONE} | changed
    given = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(DataError, match=f"client 'c': {why}"):
        check_client(Path("c.npz"), "c", given, CARD)


def test_edges_of_other_samples_and_nodes_of_one_feature_are_refused() -> None:
    plain = Card("walks", "steps", ("a", "b"), ("p", "q"))
    with refused(DataError, "edges", got="no nodes"):
        check_client(Path("c.npz"), "c", {"x": X, "y": Y, "edges": NONE}, plain)
    narrow = Card("papers", "topics", ("a", "b"), ("p",), sample="node")
    with refused(DataError, "x", got="one feature", expected="two"):
        check_client(Path("c.npz"), "c", {"x": X[:, :1], "y": Y, "edges": NONE}, narrow)


def test_a_card_of_nodes_has_no_time() -> None:
    table = {"name": "n", "task": "t", "classes": ["a", "b"], "features": ["p"], "sample": "node"}
    assert parse_card(dict(table), Path("f.toml")).sample == "node"
    with refused(DataError, "window_s", got=["1.0", "'node'"]):
        parse_card(table | {"window_s": 1.0}, Path("f.toml"))
