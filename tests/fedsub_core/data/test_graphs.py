"""Rows of a graph: nodes and edges come back in any order, neighbours mix as by hand."""

import numpy as np
import pytest
import torch

from fedsub_core.data.graphs import graph_of, graph_rows, propagate, real_rows

FEATURES = np.array([[1, 10, 100], [2, 20, 200], [3, 30, 300], [4, 40, 400]], np.float32)
#: 0 - 1 - 2, and 3 alone.
PATH = np.array([[0, 1], [1, 2]])


def rows(samples: list[int], edges: np.ndarray = PATH) -> torch.Tensor:
    both = graph_rows(FEATURES, edges, np.array(samples))
    assert len(both[0]) == len(samples)
    return torch.from_numpy(np.concatenate(both))


def joined(x: torch.Tensor) -> set[tuple[int, int]]:
    """Return who is joined to whom, by the nodes' first features."""
    h, source, target = graph_of(x)
    return {(int(h[a, 0]), int(h[b, 0])) for a, b in zip(source, target, strict=True)}


ALL = {(1, 2), (2, 1), (2, 3), (3, 2), (1, 1), (2, 2), (3, 3), (4, 4)}


def test_samples_come_first_and_edges_last() -> None:
    x = rows([2, 0])
    assert x[:, 0].tolist() == [3, 1, 2, 4, -1, -1]
    assert graph_of(x).features.tolist() == [*FEATURES[[2, 0, 1, 3]].tolist(), [0] * 3, [0] * 3]
    assert joined(x) == ALL


def test_the_order_of_rows_and_padding_change_nothing() -> None:
    x = rows([0, 1, 2, 3])
    padded = torch.cat([x[torch.randperm(len(x))], torch.zeros(3, 4)])
    assert joined(padded) == ALL
    assert real_rows(padded) == len(x) and real_rows(torch.zeros(2, 4)) == 0


def test_edges_of_nodes_that_are_not_there_count_not() -> None:
    x = rows([0, 1, 2, 3])
    assert joined(x[[0, 2, 4, 5]]) == {(1, 1), (3, 3)}


def test_a_graph_without_edges_has_nodes_that_see_themselves() -> None:
    x = rows([0, 1, 2, 3], np.empty((2, 0), np.int64))
    h, source, target = graph_of(x)
    assert len(x) == 4 and torch.equal(propagate(h, source, target), h)


def test_neighbours_mix_as_kipf_and_welling_say() -> None:
    """Degrees with self loops 2, 3, 2, 1."""
    h, source, target = graph_of(rows([0, 1, 2, 3]))
    mixed = propagate(h, source, target)[:, 0]
    sixth = 6**-0.5
    by_hand = [1 / 2 + 2 * sixth, sixth + 2 / 3 + 3 * sixth, 2 * sixth + 3 / 2, 4, 0, 0]
    assert mixed.tolist() == pytest.approx(by_hand)


def test_gradients_go_back_along_the_edges() -> None:
    h, source, target = graph_of(rows([0, 1, 2, 3]).double())
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda one: propagate(one, source, target), (h,))
