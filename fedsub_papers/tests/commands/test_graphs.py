"""Graphs from the command line: run, predict, export; what has no edges is refused."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsub_client.loaded_model import load_model
from fedsub_core.data.federation import write_federation
from fedsub_papers.tests import shapes
from tests.fedsub.commands.calls import Call


@pytest.fixture
def folder(real_data: Path, tmp_path: Path) -> Path:
    write_federation(tmp_path / "people", shapes.papers(real_data, people=3, each=30))
    return tmp_path / "people"


def test_a_persons_model_is_used_with_edges(fedsub: Call, folder: Path, tmp_path: Path) -> None:
    code, out, err = fedsub(
        "run", "--data", str(folder), "--method", "fedavg", "--beside", "", "--rounds", "2",
        "--out", str(tmp_path / "runs"),
    )  # fmt: skip
    assert code == 0, err
    assert "recorded one after another" not in out  # a graph's nodes have no order
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "data.json").read_text().count("as a graph's nodes have no order") == 3
    samples, own = folder / "clients" / "p01.npz", ["--client", "p01", "--run", str(run)]
    code, out, err = fedsub("predict", *own, "--input", str(samples))
    assert code == 0, err
    rows = list(csv.reader(io.StringIO(out)))[1:]
    with np.load(samples) as arrays:
        x, edges = arrays["x"], arrays["edges"]
    model = load_model(run / "fedavg" / "models" / "p01.safetensors")
    found = model.probabilities(x, edges=edges)
    np.testing.assert_allclose([[float(p) for p in row[2:]] for row in rows], found, atol=1e-5)
    # A node's answer goes by its neighbours, up to four steps away, and by nobody else's rows.
    assert not np.allclose(model.probabilities(x, edges=edges[:, :0]), found, atol=1e-6)
    np.savez(tmp_path / "alone.npz", x=x)
    code, _, err = fedsub("predict", *own, "--input", str(tmp_path / "alone.npz"))
    assert code == 2 and "edges: got none, expected [2, m], rows of x" in err
    code, _, err = fedsub(
        "export", *own, "--format", "onnx", "--output", str(tmp_path / "model.onnx")
    )
    assert code == 2 and "got a model of a graph's nodes, expected safetensors" in err
    code, out, err = fedsub(
        "export", *own, "--format", "safetensors", "--output", str(tmp_path / "own.safetensors")
    )
    assert code == 0 and "read back" in out, err
    again = load_model(tmp_path / "own.safetensors")
    assert again.shape == model.shape and torch.equal(
        torch.tensor(again.probabilities(x, edges=edges)), torch.tensor(found)
    )


def test_the_size_of_a_model_of_nodes_is_said(fedsub: Call) -> None:
    code, out, err = fedsub("models", "gcn", "--nodes", "--input", "1433", "--classes", "7")
    assert code == 0 and "100,551" in out and "1433 features of nodes" in out, err
    code, _, err = fedsub("models", "--nodes", "--input", "3,32,32")
    assert code == 2 and "--nodes: got 3,32,32 beside it, expected one number" in err
