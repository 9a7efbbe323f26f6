"""Runs on features of a module of one's own: they train, go on, are refused and are exported."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import fedsub
from fedsub.export.formats import export
from fedsub.studies.run import check_data, load_data, new_folder, resumed_config, train_methods
from fedsub.testing.refusals import refused
from fedsub_client.loaded_model import load_model
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.encoders.frozen_module import frozen
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.errors import ConfigError, RunError

NET = """
from torch import nn
from fedsub_core.encoders.feature_scale import FeatureScale

class Net(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(shape[0], 12, 9, stride=4), nn.BatchNorm1d(12)
        self.scale = FeatureScale(24)
    def forward(self, x):
        seen = self.norm(self.conv(x)).relu()
        return self.scale(nn.functional.adaptive_avg_pool1d(seen, 2).flatten(1))
"""
NAME = "net.py:Net@w.safetensors"


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Federation:
    """Real windows of three people, in a folder beside a module's file and its weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    watch = watch_federation()
    some = replace(watch, clients=dict(list(watch.clients.items())[:3]))
    write_federation(tmp_path / "data", some)
    Path("net.py").write_text(NET)
    names: dict[str, Any] = {}
    exec(NET, names)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = names["Net"](next(iter(some.clients.values())).x.shape[1:])
    net.eval()
    net.scale = nn.Identity()
    x = np.concatenate([one.x for one in some.clients.values()])
    x = (x - x.mean((0, 2), keepdims=True)) / x.std((0, 2), keepdims=True)
    features = net(torch.from_numpy(x)).detach()
    net.scale = names["FeatureScale"](24).fit(features)
    save_file(net.state_dict(), "w.safetensors")
    return some


def config(**keys: Any) -> RunConfig:
    given: dict[str, Any] = {
        "method": "fedsub-ridge",
        "beside": "",
        "rounds": 2,
        "data": "data",
        "threads": 1,
    }
    return read_config(None, given | {"device": "cpu", "encoder": NAME} | keys)


def trained(run: RunConfig) -> Path:
    """Return the folder of a run that has finished."""
    data = load_data(run)
    folder = new_folder(run)
    train_methods(run, data, folder, lambda name, round: None)
    return folder


def test_a_run_keeps_its_files_digest_and_refuses_others(people: Federation) -> None:
    folder = trained(config())
    digest = config().encoder.partition("#")[2]
    assert len(digest) == 16 and f"{NAME}#{digest}" in (folder / "run.toml").read_text()
    assert resumed_config(folder, {"encoder": NAME, "rounds": "3"}).rounds == 3
    save_file({"other": torch.zeros(1)}, "w.safetensors")
    with refused(RunError, str(folder), "encoder", f"{NAME}#{digest}"):
        resumed_config(folder, {"encoder": NAME})
    frozen.cache_clear()  # as in another process
    with refused(ConfigError, NAME, expected=digest):
        check_data(resumed_config(folder, {"rounds": "3"}), people)
    with Path("net.py").open("a") as file:
        file.write("# changed\n")
    with refused(ConfigError, "encoder", got="net.py:Net"):
        resumed_config(folder, {"rounds": "3"})


@pytest.mark.parametrize("format", ["torchscript", pytest.param("onnx", marks=pytest.mark.slow)])
def test_models_predict_with_the_module_inside(people: Federation, format: str) -> None:
    folder = trained(config())
    client, data = next(iter(people.clients.items()))
    path = folder / "fedsub-ridge" / "models" / f"{client}.safetensors"
    with refused(RunError, client, got="no --encoder", expected=NAME):
        load_model(path)
    model = load_model(path, encoder=NAME)
    assert isinstance(model.encoder, ModuleEncoder) and model.architecture.input_shape == (24,)
    assert (model.probabilities(data.x).argmax(1) == data.y).mean() > 0.6
    if format == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    difference = export(model, format, Path("model"))
    assert difference is not None and difference < 1e-4
    Path("net.py").rename("elsewhere.py")
    moved = load_model(path, encoder="elsewhere.py:Net@w.safetensors")
    assert np.array_equal(moved.probabilities(data.x), model.probabilities(data.x))
    Path("elsewhere.py").write_text(NET + "\n")
    frozen.cache_clear()
    with refused(RunError, client, "elsewhere.py:Net@w.safetensors", expected="run"):
        load_model(path, encoder="elsewhere.py:Net@w.safetensors")


def test_a_method_that_trains_standardises_the_features(people: Federation) -> None:
    folder = trained(config(method="fedavg", epochs=8, lr=0.05))
    client, data = next(iter(people.clients.items()))
    model = load_model(folder / "fedavg" / "models" / f"{client}.safetensors", encoder=NAME)
    assert model.scaling is not None and model.scaling.features is not None
    assert (model.probabilities(data.x).argmax(1) == data.y).mean() > 0.4


def test_devices_that_hold_less_are_refused_before_the_run(people: Federation) -> None:
    client = list(people.clients)[1]
    run = config(capacities=f"{client}=1/4")
    with refused(ConfigError, client, "fedsub-ridge", got=["0.25", NAME], expected=1):
        check_data(run, people)
    check_data(config(capacities=f"{client}=1/4", method="heterofl"), people)


def test_python_takes_a_module_itself(people: Federation, tmp_path: Path) -> None:
    channels = next(iter(people.clients.values())).x.shape[1]
    module = nn.Sequential(
        nn.Conv1d(channels, 20, 9), nn.Tanh(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
    )
    run = fedsub.run(
        people, "fedsub-ridge", 1, beside="", encoder=module, out=str(tmp_path / "runs"),
        progress=False, threads=1,
    )  # fmt: skip
    client = next(iter(people.clients))
    own = run.model(client)
    assert own(people.clients[client].x).shape[1] == len(own.classes)
    assert run.config.encoder.startswith("fedsub_given:module_")
    named = fedsub.run(
        people, "fedsub-ridge", 1, beside="", encoder=NAME, out=str(tmp_path / "runs"),
        progress=False, threads=1,
    )  # fmt: skip
    again = fedsub.load(named.folder, encoder=NAME)
    assert isinstance(again, fedsub.Run)
    assert again.model(client).classes == own.classes
