"""A device and an encoder that is a module: its owner names the code, the run its digest."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from torch import nn

from fedsub.testing.refusals import refused
from fedsub_client.model_file import model_bytes
from fedsub_client.saved_state import Saved
from fedsub_core.encoders.frozen_module import frozen
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.errors import ConfigError, RunError

CODE = (
    "from torch import nn\ndef net(shape):\n    return nn.Sequential(nn.Linear(2, 5), nn.Tanh())\n"
)
NAME = "net.py:net@w.safetensors"


@pytest.fixture
def device(phone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device whose run has such an encoder, and whose owner names nothing yet."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(CODE)
    save_file(nn.Sequential(nn.Linear(2, 5)).state_dict(), "w.safetensors")
    return phone(method="fedsub-ridge", encoder=NAME)


def test_the_owner_names_the_code_before_it_runs(device: Any) -> None:
    assert len(device.config.encoder) == len(NAME) + 17
    with refused(RunError, "p", got="nothing", expected=NAME):
        device.query()
    device.node["encoder"] = "kernels:5"
    with refused(RunError, "p", got="kernels:5", expected=NAME):
        device.query()
    device.node["encoder"] = NAME
    assert device.query()["client"] == "p"


def test_files_may_lie_elsewhere_and_not_be_others(device: Any) -> None:
    Path("mine").mkdir()
    for name in ("net.py", "w.safetensors"):
        Path(name).rename(Path("mine", name))
    own = "mine/net.py:net@mine/w.safetensors"
    device.node["encoder"] = own
    frozen.cache_clear()
    assert device.query()["client"] == "p"
    Path("mine", "net.py").write_text(CODE + "# another\n")
    frozen.cache_clear()
    digest = device.config.encoder.partition("#")[2]
    with refused(ConfigError, own, expected=digest):
        device.query()


def test_a_state_names_the_module_and_does_not_run_it(device: Any) -> None:
    device.node["encoder"] = NAME
    device.train(1)
    Path("net.py").unlink()
    frozen.cache_clear()
    saved = device.saved
    assert isinstance(saved, Saved) and saved.model is not None
    assert isinstance(saved.model.encoder, ModuleEncoder) and saved.model.encoder.features == 5
    assert NAME.encode() in model_bytes(saved.model)
