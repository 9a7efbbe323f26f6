"""Stacks of graphs: who is tested is seen and not known, and nobody sees another's nodes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedsub_client.scaled_data import ScaledData
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.graphs import graph_of
from fedsub_core.data.samples import Nodes
from fedsub_core.models.kinds import build_model
from fedsub_core.training import TrainingSettings, Turn, train
from fedsub_papers.tests import shapes


@pytest.fixture
def clients(real_data: Path) -> list[SplitClient]:
    """Return people of 20, 23 and 26 papers, split."""
    papers = shapes.papers(real_data, people=3, each=20)
    settings = SplitSettings("stratified", 0.3)
    return [split_client(one, papers.card, settings) for one in papers.clients.values()]


def scaled(clients: list[SplitClient]) -> ScaledData:
    return ScaledData(clients, "none", "cpu", 64)


def test_other_nodes_are_context_without_labels(clients: list[SplitClient]) -> None:
    train_data, test_data = scaled(clients).at(1, None)
    for i, one in enumerate(clients):
        n, (x, y) = len(one.x), (train_data.x[i], train_data.y[i])
        count = train_data.counts[i]
        assert count == len(one.train) and train_data.context[i] > n - count  # edges, too
        assert y[:count].tolist() == one.train_y.tolist() and not y[count:].any()
        assert x[:count, 0].tolist() == (one.train + 1).tolist()
        assert set(x[count:n, 0].tolist()) == set((one.test + 1).tolist())
        np.testing.assert_array_equal(x[:count, 1:], one.x[one.train])
        assert test_data.x[i, : len(one.test), 0].tolist() == (one.test + 1).tolist()
        assert one.edges is not None
        assert len(graph_of(x).source) == 2 * one.edges.shape[1] + n


def test_a_part_of_the_samples_still_sees_the_whole_graph(clients: list[SplitClient]) -> None:
    data, _ = scaled(clients).at(1, None)
    part = data.part(data.valid & (torch.arange(data.y.shape[1]) % 2 == 0))
    for i, one in enumerate(clients):
        assert 0 < part.counts[i] < data.counts[i]
        assert part.counts[i] + part.context[i] == data.counts[i] + data.context[i]
        assert not part.y[i, part.counts[i] :].any()
        assert one.edges is not None
        assert len(graph_of(part.x[i]).source) == 2 * one.edges.shape[1] + len(one.x)


def test_training_alone_is_training_in_the_stack_to_the_bit(clients: list[SplitClient]) -> None:
    """And what padding holds, or another's graph, changes no logit."""
    model = build_model("gcn", Nodes((64,)), 7)
    settings, turn = TrainingSettings(epochs=3, lr=0.1, batch_size=4), Turn(1, 1, 0)
    data, tested = scaled(clients).at(1, None)
    together, losses = train(model, model.init(3, 0), data, turn, settings)
    logits = model.forward(together, tested.x)
    for i, one in enumerate(clients):
        own, own_test = scaled([one]).at(1, None)
        alone, loss = train(model, model.init(1, 0), own, turn, settings)
        assert torch.equal(loss[0], losses[i])
        for name, tensor in alone.items():
            assert torch.equal(tensor[0], together[name][i]), name
        rows = own_test.x.shape[1]
        assert torch.equal(model.forward(alone, own_test.x)[0], logits[i, :rows])


def test_a_step_is_the_whole_graph_whatever_the_batch_size(clients: list[SplitClient]) -> None:
    model = build_model("gcn", Nodes((64,)), 7)
    data, _ = scaled(clients).at(1, None)
    few, many = (
        train(
            model,
            model.init(3, 0),
            data,
            Turn(1, 1, 0),
            TrainingSettings(epochs=2, lr=0.1, batch_size=n),
        )
        for n in (1, 1000)
    )
    for name, tensor in few.params.items():
        torch.testing.assert_close(tensor, many.params[name])
