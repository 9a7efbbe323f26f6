"""A module of one's own as an encoder: its levels by hand, its name, and what is refused."""

import logging
import pickle
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fedsub.testing.refusals import refused
from fedsub_core.encoders import frozen_module, module_names
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.feature_scale import FeatureScale
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.encoders.module_names import NamedModule, code_of
from fedsub_core.encoders.names import LARGEST, check_encoder, pinned_encoder
from fedsub_core.errors import ConfigError

#: What a file of the tests begins with.
IMPORTS = "import torch\nfrom torch import nn\n"
LINEAR = f"{IMPORTS}def net(shape):\n    return nn.Linear(shape[0], 2)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frozen_module.frozen.cache_clear()


def made(
    code: str, shape: tuple[int, ...] = (3,), name: str = "net.py:net", seed: int = 0
) -> Encoder:
    """Return the encoder of a file of this code."""
    Path("net.py").write_text(code)
    encoder = build_encoder(pinned_encoder(name), seed, shape)
    assert encoder is not None
    return encoder


def of_forward(line: str) -> str:
    """Return the code of a module whose forward pass is one line."""
    return (
        f"{IMPORTS}class net(nn.Module):\n    def __init__(self, shape):\n"
        "        super().__init__()\n        self.register_buffer('seen', torch.zeros(1))\n"
        f"    def forward(self, x):\n        {line}\n"
    )


def test_outputs_are_rounded_to_levels_and_clipped() -> None:
    encoder = made(of_forward("return x / 128"), (4,))
    x = np.array([[0.5, 1.5, -2.5, 126.4], [200, -200, 127.6, -128]], np.float32)
    assert encoder.features == 4
    expected = [[0, 2, -2, 126], [127, -128, 127, -128]]
    assert (encoder.encode(x) * 128).tolist() == expected
    steps = (x[:1, :3].repeat(2, 1)[:, :4] * 256).astype(np.int16)
    assert encoder.levels(np.minimum(steps, 2047))[0].tolist() == [0, 0, 2, 2]


def test_samples_come_as_they_are_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = made(of_forward("return x.flatten(1)[:, :1] / 1000"), (2, 3))
    x = np.linspace(-900, 900, 12, dtype=np.float32).reshape(2, 2, 3)
    whole = encoder.encode(x)
    assert (whole * 128).tolist() == [[-115], [10]]
    monkeypatch.setattr("fedsub_core.encoders.module_encoder.BLOCK", 1)
    assert np.array_equal(encoder.encode(x), whole)


def test_weights_that_a_builder_draws_follow_the_seed() -> None:
    x = np.random.default_rng(1).uniform(-0.3, 0.3, (5, 3)).astype(np.float32)
    one, same, other = (made(LINEAR, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(one.encode(x), same.encode(x))
    assert not np.array_equal(one.encode(x), other.encode(x))


def test_weights_come_from_a_file() -> None:
    weights = {"weight": torch.eye(3)[:2] / 4, "bias": torch.tensor([0.0, 0.5])}
    save_file(weights, "w.safetensors")
    encoder = made(LINEAR, name="net.py:net@w.safetensors")
    assert (encoder.encode(np.ones((1, 3), np.float32)) * 128).tolist() == [[32, 96]]
    assert encoder.text.startswith("net.py:net@w.safetensors#")


def test_the_digest_is_of_the_code_the_weights_and_the_builder() -> None:
    Path("net.py").write_text(LINEAR)
    save_file({"weight": torch.zeros(1)}, "w.safetensors")
    texts = [pinned_encoder("net.py:net"), pinned_encoder("net.py:net@w.safetensors")]
    Path("far").mkdir()
    Path("far", "net.py").write_text(LINEAR)
    assert pinned_encoder("far/net.py:net").endswith(texts[0].partition("#")[2])
    save_file({"weight": torch.ones(1)}, "w.safetensors")
    texts.append(pinned_encoder("net.py:net@w.safetensors"))
    Path("net.py").write_text(LINEAR + "# more\n")
    texts += [pinned_encoder("net.py:net"), pinned_encoder("net.py:other")]
    assert len({text.partition("#")[2] for text in texts}) == 5
    assert pinned_encoder(texts[0]) == texts[0]
    with refused(ConfigError, "net.py:net", expected=texts[0].partition("#")[2]):
        build_encoder(texts[0], 0, (3,))


def test_an_encoder_is_its_name_and_no_code_runs_before_it_encodes() -> None:
    encoder = made(LINEAR)
    assert pickle.loads(pickle.dumps(encoder)) == encoder
    x = np.zeros((1, 3), np.float32)
    assert np.array_equal(pickle.loads(pickle.dumps(encoder)).encode(x), encoder.encode(x))
    assert ModuleEncoder(2, 0, (3,), "nowhere.py:net").features == 2
    with refused(ConfigError, "net.py:net", got=[2, "features"], expected=5):
        ModuleEncoder(5, 0, (3,), "net.py:net").encode(x)


def test_a_part_of_a_module_is_refused() -> None:
    encoder = made(LINEAR)
    assert encoder.narrow(1.0) is encoder and not encoder.narrows
    with refused(ConfigError, "net.py:net", got=["capacity", "0.25"], expected=1):
        encoder.narrow(0.25)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\n", ["no net that can be called"]),
        ("raise ValueError('no')\n", ["net.py cannot be imported", "ValueError: no"]),
        ("def net(shape, classes):\n    pass\n", ["TypeError", "(input_shape)"]),
        ("def net(shape):\n    return 3\n", ["got int", "torch.nn.Module"]),
        (of_forward("return x.double()"), ["torch.float64 (8, 3)", "torch.float32 [8, F]"]),
        (of_forward("return x[:, 0]"), ["torch.float32 (8,)"]),
        (of_forward("return x, x"), ["got tuple"]),
        (of_forward("return x[:1]"), ["(1, 3) of 8 samples"]),
        (of_forward("return x.log()"), ["NaN or infinite"]),
        (of_forward("return x.reshape(-1, 2)"), ["(12, 2) of 8 samples"]),
        (of_forward("return x @ torch.ones(4, 4)"), ["got RuntimeError", "(3,)"]),
        (of_forward(f"return x[:, :1].expand(-1, {LARGEST + 1})"), ["65,537", "65,536 at most"]),
        (of_forward("return x - x.mean(0)"), ["in a batch and alone", "differ by"]),
        (of_forward("return torch.nn.functional.dropout(x)"), ["twice, of the same samples"]),
        (of_forward("self.seen += 1; return x"), ["its seen changed in a call"]),
        (f"{IMPORTS}def net(shape):\n    return nn.Linear(3, 2).double()\n", ["torch.float64"]),
    ],
)
def test_what_is_no_encoder_is_refused_by_name(code: str, words: list[str]) -> None:
    with refused(ConfigError, "net.py:net") as caught:
        made(code)
    for word in words:
        assert word in str(caught.value)


def test_a_norm_in_evaluation_mode_is_none_over_the_batch() -> None:
    layers = "nn.BatchNorm1d(3{}), nn.Flatten()"
    code = f"{IMPORTS}def net(shape):\n    return nn.Sequential({layers})\n"
    assert made(code.format(""), (3, 8)).features == 24
    with refused(ConfigError, "in a batch and alone"):
        made(code.format(", track_running_stats=False"), (3, 8))
    with refused(ConfigError, got="ValueError", expected="1 samples of shape (3,)"):
        made(code.format(", track_running_stats=False"))


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"weight": torch.zeros(2, 4), "bias": torch.zeros(2)}, ["got (2, 4), expected (2, 3)"]),
        ({"weight": torch.zeros(2, 3)}, ["bias: got none, expected (2,)"]),
        ({"other": torch.zeros(1)}, ["other: got (1,), expected none"]),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    tensors: dict[str, torch.Tensor], words: list[str]
) -> None:
    save_file(tensors, "w.safetensors")
    with refused(ConfigError, "net.py:net@w.safetensors") as caught:
        made(LINEAR, name="net.py:net@w.safetensors")
    for word in words:
        assert word in str(caught.value)


def test_files_that_are_none_are_refused() -> None:
    with refused(ConfigError, "net.py", got="no such file"):
        pinned_encoder("net.py:net")
    Path("net.py").write_text(LINEAR)
    with refused(ConfigError, "w.safetensors", got="no such file"):
        pinned_encoder("net.py:net@w.safetensors")
    Path("w.safetensors").write_bytes(b"\x80\x04 pickled")
    with refused(ConfigError, "w.safetensors", expected="safetensors"):
        made(LINEAR, name="net.py:net@w.safetensors")
    for text in ("net.py:net@w.pt", "net.py", "net.py:", "net.py:3", "net.py:net#12"):
        with refused(ConfigError, f"{text!r}", expected="file.py:builder@weights.safetensors"):
            check_encoder(text)


def test_features_out_of_scale_are_refused_or_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsub_core.encoders.module_encoder._warned", set())
    x = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4)
    with refused(ConfigError, "net.py:net", "FeatureScale", got="90%", expected="50%"):
        made(of_forward("return 10 * x"), (4,)).encode(x)
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "fedsub"):
        encoder = made(of_forward("return 1.5 * x"), (4,))
        for _ in range(2):
            encoder.encode(x)
    assert [r.args for r in caplog.records] == [("net.py:net", 35, 256)]
    monkeypatch.setattr("fedsub_core.encoders.module_encoder._warned", set())
    with caplog.at_level(logging.WARNING, "fedsub"):
        made(of_forward("return x / 100"), (4,)).encode(x)
    assert caplog.records[-1].args == ("net.py:net", 0, 3)


def test_a_feature_scale_makes_four_deviations_one() -> None:
    scale = FeatureScale(2)
    assert scale(torch.tensor([[4.0, -2.0]])).tolist() == [[1, -0.5]]
    fitted = scale.fit(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    assert fitted(torch.tensor([[6.0, 5.0], [2.0, 9.0]])).tolist() == [[1, 0], [0, 1]]
    assert set(scale.state_dict()) == {"mean", "deviation"}


def test_an_installed_package_offers_encoders_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("offered_net.py").write_text(LINEAR)
    monkeypatch.syspath_prepend(".")
    points = {"har": EntryPoint("har", "offered_net:net", "fedsub.encoders")}
    installed: Callable[[str], dict[str, EntryPoint]] = lambda group: points  # noqa: E731
    monkeypatch.setattr(module_names, "installed", installed)
    text = pinned_encoder("har")
    assert text.startswith("har#") and code_of(text) == ""
    encoder = build_encoder(text, 0, (3,))
    assert isinstance(encoder, ModuleEncoder) and encoder.features == 2
    with refused(ConfigError, "'hare'"):
        check_encoder("hare")


def test_names_of_other_encoders_are_no_modules() -> None:
    for text in ("auto", "none", "kernels:100", "relu:0", "kernels:100+statistics"):
        assert NamedModule.parse(text) is None and code_of(text) == ""
    named = NamedModule.parse("a/b.py:Net@x/w.safetensors#0123456789abcdef")
    assert named == NamedModule("a/b.py:Net", "x/w.safetensors", "0123456789abcdef")
    assert named.text.startswith(named.given) and code_of(named.text) == "a/b.py:Net"
