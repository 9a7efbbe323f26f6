"""Exported models: other programs get the very probabilities that the device computes."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from fedsub.export import onnx_file
from fedsub.export.formats import FORMATS, Format, PersonalModule, export
from fedsub.testing.cover import LATER
from fedsub.testing.refusals import refused
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import FACTS
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import ConfigError, RunError

from .trained_devices import KINDS, device_state


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PersonalModel]:
    """Train a device for a round, once for each kind, and load its model."""
    made: dict[str, PersonalModel] = {}

    def train(kind: str) -> PersonalModel:
        if kind not in made:
            made[kind] = load_model(device_state(tmp_path_factory.mktemp("device"), *KINDS[kind]))
        return made[kind]

    return train


def samples(loaded: PersonalModel, n: int) -> np.ndarray:
    """Samples like those of all classes, in turn."""
    means = (5 + 3 * (np.arange(n) % 3)).reshape(-1, *[1] * len(loaded.shape))
    noise = np.random.default_rng(n).normal(size=(n, *loaded.shape))
    return (means + 1.5 * noise).astype(np.float32)


def by_pytorch(loaded: PersonalModel, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(PersonalModule(loaded)(torch.from_numpy(x)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_is_the_model(trained: Callable[[str], PersonalModel], kind: str) -> None:
    loaded = trained(kind)
    x = samples(loaded, 9)
    found = loaded.probabilities(x)
    assert np.ptp(found, axis=0).max() > 0.1, "a model that says the same of all proves nothing"
    np.testing.assert_allclose(by_pytorch(loaded, x), found, atol=1e-6)
    assert (loaded.scaling is None) == kind.endswith("raw")


@pytest.mark.parametrize(
    "kind",
    [
        "cnn1d",
        pytest.param("mlp on windows", marks=pytest.mark.slow),
        *(pytest.param(kind, marks=LATER) for kind in ("mlp", "mlp raw", "cnn1d raw")),
    ],
)
def test_onnx(trained: Callable[[str], PersonalModel], kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    loaded, file = trained(kind), tmp_path / "model.onnx"
    difference = export(loaded, "onnx", file)
    assert difference is not None and difference < 1e-5
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (put,), (got,) = session.get_inputs(), session.get_outputs()
    assert (put.name, put.shape, put.type) == ("x", ["batch", *loaded.shape], "tensor(float)")
    assert (got.name, got.shape) == ("probabilities", ["batch", 3])
    for n in (1, 2, 30):
        x = samples(loaded, n)
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, by_pytorch(loaded, x), atol=1e-5)
    (told,) = (json.loads(p.value) for p in onnx.load(file).metadata_props if p.key == FACTS)
    assert told["classes"] == ["a", "b, c", "d"]
    assert told["features"] == ["u", "v"] and told["client"] == "p"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_torchscript(trained: Callable[[str], PersonalModel], kind: str, tmp_path: Path) -> None:
    loaded, file = trained(kind), tmp_path / "model.pt"
    difference = export(loaded, "torchscript", file)
    assert difference is not None and difference < 1e-5
    told = {FACTS: ""}
    module = torch.jit.load(file, _extra_files=told)  # type: ignore[no-untyped-call]
    for n in (1, 2, 30):
        x = samples(loaded, n)
        found = module(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, by_pytorch(loaded, x), atol=1e-5)
    assert json.loads(told[FACTS])["classes"] == ["a", "b, c", "d"]


@pytest.mark.parametrize("kind", KINDS)
def test_safetensors_suffice_alone(
    trained: Callable[[str], PersonalModel], kind: str, tmp_path: Path
) -> None:
    loaded, file = trained(kind), tmp_path / "model.safetensors"
    assert export(loaded, "safetensors", file) == 0
    with safe_open(file, "np") as opened:
        told = json.loads(opened.metadata()[FACTS])
        t = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    assert set(t) == {*loaded.params, "standardise.mean", "standardise.std"}
    for name, tensor in loaded.params.items():
        assert np.array_equal(t[name], tensor.numpy())
    assert told["kind"] == kind.split()[0] and told["units"] == "m/s^2"
    assert tuple(told["shape"]) == loaded.shape
    layers = told["layers"]
    units = {layer["name"]: layer["units"] for layer in layers if "units" in layer}
    assert units == {name[:-5]: len(bias) for name, bias in t.items() if name.endswith(".bias")}
    if kind == "mlp":
        x = samples(loaded, 8)
        h = (x - t["standardise.mean"]) / t["standardise.std"]
        for layer in layers:
            if layer["type"] == "ReLU":
                h = np.maximum(h, 0)
            else:
                h = h @ t[f"{layer['name']}.weight"].T + t[f"{layer['name']}.bias"]
        found = np.exp(h) / np.exp(h).sum(1, keepdims=True)
        np.testing.assert_allclose(found, by_pytorch(loaded, x), atol=1e-5)


@pytest.mark.parametrize("format", ["torchscript", "safetensors"])
def test_a_file_that_is_there_is_kept(
    trained: Callable[[str], PersonalModel], format: str, tmp_path: Path
) -> None:
    file = tmp_path / "model"
    file.write_bytes(b"mine")
    with refused(RunError, "model", "already exists", "--force"):
        export(trained("mlp"), format, file)
    assert file.read_bytes() == b"mine"
    export(trained("mlp"), format, file, force=True)
    assert len(file.read_bytes()) > 4 * 512 * 128
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("wrong", [3e-4, np.nan])
def test_a_file_that_computes_something_else_is_not_written(
    trained: Callable[[str], PersonalModel],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wrong: float,
) -> None:
    loaded, whole = trained("mlp"), FORMATS["safetensors"]
    broken = Format(whole.encode, lambda path, model: lambda x: loaded.probabilities(x) + wrong)
    monkeypatch.setitem(FORMATS, "safetensors", broken)
    file = tmp_path / "model.safetensors"
    with refused(RunError, "client 'p'", got="probabilities", expected=0.0001):
        export(loaded, "safetensors", file)
    assert list(tmp_path.iterdir()) == []
    file.write_bytes(b"before")
    with pytest.raises(RunError, match="not written"):
        export(loaded, "safetensors", file, force=True)
    assert file.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


def test_a_damaged_parameter_in_the_file_would_show(
    trained: Callable[[str], PersonalModel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The check runs what was written: a file of another model is refused, in each format."""
    loaded = trained("mlp")
    params = loaded.params | {"linear3.bias": loaded.params["linear3.bias"] + 1}
    params["linear3.bias"][0] += 1
    other = replace(loaded, params=params)
    for name in ("torchscript", "safetensors"):
        whole = FORMATS[name]
        swapped = Format(lambda _, whole=whole: whole.encode(other), whole.run)  # type: ignore[misc]
        monkeypatch.setitem(FORMATS, name, swapped)
        with pytest.raises(RunError, match="differ by"):
            export(loaded, name, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(
    trained: Callable[[str], PersonalModel], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place, words in (
        (tmp_path / "none" / "model", "could not be written"),
        (tmp_path / "file" / "model", "could not be written"),
        (tmp_path, "got a folder"),
    ):
        with pytest.raises(RunError, match=words):
            export(trained("mlp"), "safetensors", place, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with refused(ConfigError, "'tflite'", expected="onnx, torchscript, safetensors"):
        export(trained("mlp"), "tflite", tmp_path / "model")


def test_without_the_packages_of_onnx(
    trained: Callable[[str], PersonalModel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        monkeypatch.setitem(sys.modules, package, None)
    with refused(ConfigError, "onnx", "onnxscript", "'fedsub[export]'"):
        export(trained("mlp"), "onnx", tmp_path / "model.onnx")
    assert onnx_file.run_onnx(tmp_path / "model.onnx") is None
    monkeypatch.setitem(FORMATS, "onnx", Format(lambda _: b"bytes", FORMATS["onnx"].run))
    assert export(trained("mlp"), "onnx", tmp_path / "model.onnx") is None
    assert (tmp_path / "model.onnx").read_bytes() == b"bytes"
