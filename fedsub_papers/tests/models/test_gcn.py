"""The graph convolutional network: its formula, its units, and what it refuses."""

import numpy as np
import pytest
import torch

from fedsub_core.data.graphs import graph_rows
from fedsub_core.data.samples import Nodes, shape_with
from fedsub_core.encoders.build import build_encoder
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model
from fedsub_core.models.names import resolve_kind
from fedsub_core.models.torch_model import TorchModel

NODES, FEATURES, CLASSES = 12, 5, 3


@pytest.fixture
def graph() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of a graph, and ``D^-1/2 (A + I) D^-1/2`` as a dense matrix."""
    rng = np.random.default_rng(5)
    features = rng.normal(size=(NODES, FEATURES)).astype(np.float32)
    edges = np.stack(np.triu(rng.random((NODES - 1, NODES - 1)) < 0.3, 1).nonzero())
    matrix = torch.eye(NODES)
    matrix[edges[0], edges[1]] = matrix[edges[1], edges[0]] = 1
    scale = matrix.sum(1).rsqrt()
    x = np.concatenate(graph_rows(features, edges, np.arange(NODES)))
    return torch.from_numpy(x), scale[:, None] * matrix * scale


def gcn() -> TorchModel:
    model = build_model("auto", Nodes((FEATURES,)), CLASSES)
    assert isinstance(model, TorchModel)
    return model


def test_logits_are_the_papers_formula(graph: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, matrix = graph
    model = gcn()
    params = model.init(1, 0)
    h = x[:NODES, 1:]
    for i in range(4):
        weight, bias = (params[f"layers.{i}.{one}"][0] for one in ("weight", "bias"))
        h = matrix @ h @ weight.T + bias
        h = h.relu() if i < 3 else h
    torch.testing.assert_close(model.forward(params, x[None])[0, :NODES], h)


def test_a_body_and_a_head_make_the_model(graph: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, _ = graph
    model = gcn()
    params = model.init(1, 0)
    body, head = model.cut()
    made = head.forward(params, body.forward(params, x[None]))
    torch.testing.assert_close(made, model.forward(params, x[None]))


def test_some_units_compute_as_all_with_the_others_zero(
    graph: tuple[torch.Tensor, torch.Tensor],
) -> None:
    x, _ = graph
    model = gcn()
    groups = model.unit_groups
    assert [(one.name, one.size) for one in groups] == [(f"layers.{i}", 64) for i in range(3)]
    units = {one.name: np.arange(place, 64, 3) for place, one in enumerate(groups)}
    small, places = model.narrow(units)
    whole, zeroed = model.init(1, 0), {}
    part = {}
    for name, tensor in whole.items():
        part[name] = places[name].take(tensor[0])[None]
        zeroed[name] = places[name].put(torch.zeros_like(tensor[0]), part[name][0])[None]
    torch.testing.assert_close(small.forward(part, x[None]), model.forward(zeroed, x[None]))


def test_what_is_no_graph_is_refused_and_a_graph_elsewhere() -> None:
    nodes = Nodes((FEATURES,))
    assert resolve_kind("auto", nodes) == "gcn"
    with pytest.raises(ConfigError, match="gcn wants nodes of a graph, got samples of shape"):
        build_model("gcn", (FEATURES,), CLASSES)
    for kind in ("mlp", "linear"):
        with pytest.raises(ConfigError, match=f"model '{kind}' takes no graph, .*: use gcn"):
            build_model(kind, nodes, CLASSES)
    with pytest.raises(ConfigError, match="expected none: encoders take windows and feature"):
        build_encoder("relu:8", 0, nodes)
    assert nodes != (FEATURES,) and shape_with((FEATURES,), {"graphs": 1}) == nodes
    with pytest.raises(ValueError, match=r"expected \(features,\) and 1"):
        shape_with((FEATURES, 2), {"graphs": 1})
