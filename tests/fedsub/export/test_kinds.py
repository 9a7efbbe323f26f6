"""An exported file names the kind of model that it was built as, whatever its layers."""

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from torch import nn

from fedsub.export.formats import export
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import FACTS
from fedsub_core.models import names

from .trained_devices import device_state


def tiny_conv(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """A model as an installed package offers it: convolutional, and not ours."""
    convolution = nn.Conv1d(shape[0], 3, 5, stride=2)
    pool = nn.AdaptiveAvgPool1d(2)
    return nn.Sequential(convolution, nn.ReLU(), pool, nn.Flatten(), nn.Linear(6, classes))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Have `tiny_conv` found as a package's entry point would be."""
    point = EntryPoint("tiny-conv", f"{__name__}:tiny_conv", names.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: tiny_conv)
    monkeypatch.setattr(names, "entry_points", lambda group: [point])
    names.installed.cache_clear()
    yield point.name
    names.installed.cache_clear()


def metadata(file: Path) -> dict[str, Any]:
    with safe_open(file, "np") as opened:
        told: dict[str, Any] = json.loads(opened.metadata()[FACTS])
    return told


def test_an_installed_model_goes_by_its_own_name(installed: str, tmp_path: Path) -> None:
    loaded = load_model(device_state(tmp_path, installed, (2, 40), "federation", epochs=1))
    file = tmp_path / "model.safetensors"
    # Read back by what the file says: under another name it would compute something else.
    assert export(loaded, "safetensors", file) == 0
    told = metadata(file)
    layers = told["layers"]
    assert [layer["type"] for layer in layers].count("Conv") == 1
    assert told["kind"] == installed == "tiny-conv"
    (conv,) = (layer for layer in layers if layer["type"] == "Conv")
    assert (conv["units"], conv["channels"], conv["kernel"]) == (3, 2, [5])


@pytest.mark.parametrize(("shape", "kind"), [((2,), "mlp"), ((2, 40), "cnn1d")])
def test_auto_is_resolved(shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    loaded = load_model(device_state(tmp_path, "auto", shape, "none", epochs=1))
    file = tmp_path / "model.safetensors"
    export(loaded, "safetensors", file)
    assert metadata(file)["kind"] == kind
