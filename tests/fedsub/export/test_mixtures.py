"""A person's mixture of models as one file: what it computes is what the device predicts."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors import safe_open

from fedsub.export.formats import export
from fedsub.testing.cover import LATER
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import FACTS
from fedsub_client.personal_model import PersonalModel
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.errors import RunError

from .trained_devices import device_state

MODELS = {"mlp": (2,), "cnn1d": (2, 77)}


@pytest.fixture(scope="module", params=MODELS)
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PersonalModel:
    """The mixture of a person who lacks the last class, which is open."""
    settings = {
        "method": "fedsub-gated",
        "fedsub-gated.open-classes": "on",
    }
    folder, model = tmp_path_factory.mktemp("device"), request.param
    state = device_state(
        folder, model, MODELS[model], "federation", epochs=3, classes=2, **settings
    )
    return load_model(state)


def samples(loaded: PersonalModel, n: int) -> np.ndarray:
    stream = np.random.default_rng(n)
    return stream.normal(5, 3, (n, *loaded.shape)).astype(np.float32)


@pytest.mark.parametrize(
    "loaded", ["mlp", pytest.param("cnn1d", marks=LATER)], indirect=True, scope="module"
)
def test_the_file_answers_as_the_device_does(loaded: PersonalModel, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    difference = export(loaded, "onnx", file)
    assert difference is not None and difference < 1e-5
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for n in (1, 30):
        x = samples(loaded, n)
        (found,) = session.run(["probabilities"], {"x": x})
        np.testing.assert_allclose(found, loaded.probabilities(x), atol=1e-5)
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
        assert (found[:, 2] > 0).all(), "the class that the person lacks is open"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_other_formats(loaded: PersonalModel, tmp_path: Path) -> None:
    difference = export(loaded, "safetensors", tmp_path / "model.safetensors")
    # The same numbers, but a processor may add them up by where they lie in memory.
    assert difference is not None and difference < 1e-6
    with safe_open(tmp_path / "model.safetensors", "np") as opened:
        told = json.loads(opened.metadata()[FACTS])
        for name, tensor in loaded.params.items():
            assert np.array_equal(opened.get_tensor(name), tensor.numpy()), name
        assert {*opened.keys()} >= {"gate.weights", "fused.linear1.bias", "nearest.means"} - {
            "fused.linear1.bias" if loaded.kind == "cnn1d" else ""
        }
    assert told["predictor"]["experts"] == ["local", "fused", "head"]
    for word in ("gate.weights mix them", "gate.temperature", "nearest.spread"):
        assert word in told["computes"]
    difference = export(loaded, "torchscript", tmp_path / "model.pt")
    assert difference is not None and difference < 1e-5
    module = torch.jit.load(tmp_path / "model.pt")  # type: ignore[no-untyped-call]
    x = samples(loaded, 5)
    np.testing.assert_allclose(module(torch.from_numpy(x)), loaded.probabilities(x), atol=1e-5)


def test_every_expert_counts(loaded: PersonalModel) -> None:
    """A file in which one of them were left out would be another."""
    x, params = samples(loaded, 8), loaded.params
    before = loaded.probabilities(x)
    for name in ("local", "fused", "head"):
        bias = next(n for n in reversed(params) if n.startswith(name) and n.endswith("bias"))
        kept = params[bias].clone()
        params[bias][0] += 1
        assert not np.allclose(loaded.probabilities(x), before, atol=1e-4), name
        params[bias].copy_(kept)
    np.testing.assert_array_equal(loaded.probabilities(x), before)


@pytest.fixture
def diverged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The state of a device of which these experts diverged."""
    folder = device_state(tmp_path, "mlp", (2,), "federation", method="fedsub-gated")
    state = Saved.of_bytes((folder / STATE_FILE).read_bytes())
    assert state.model is not None
    for name, tensor in state.model.params.items():
        if name.partition(".")[0] in request.param:
            tensor.fill_(torch.nan)
    (folder / STATE_FILE).write_bytes(state.to_bytes())
    return folder


@pytest.mark.parametrize(
    ("diverged", "format"),
    [pytest.param(("local",), "onnx", marks=LATER), (("fused", "head"), "torchscript")],
    indirect=["diverged"],
)
def test_an_expert_that_diverged_takes_nobody_its_other_models(
    diverged: Path, format: str, tmp_path: Path
) -> None:
    loaded = load_model(diverged)
    x = samples(loaded, 8)
    found = loaded.probabilities(x)
    assert np.isfinite(found).all() and len(set(found.argmax(1))) > 1
    difference = export(loaded, format, tmp_path / f"model.{format}")
    assert difference is not None and difference < 1e-5


@pytest.mark.parametrize("diverged", [("local", "fused", "head"), ("gate",)], indirect=True)
def test_where_all_that_is_believed_diverged_there_is_no_model(diverged: Path) -> None:
    with pytest.raises(RunError, match="not finite, expected a trained model"):
        load_model(diverged)
