"""Exported encoders give our features, to the bit, in every runtime."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub.export.encoder_module import encoder_module
from fedsub.export.formats import PersonalModule, export
from fedsub.export.onnx_file import encode_onnx, run_onnx
from fedsub.testing.cover import LATER
from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.card import Card
from fedsub_core.data.sensors import Windows
from fedsub_core.data.standardise import Scaling, apply
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.standardised import of_person
from fedsub_core.models.kinds import mlp

ENCODERS = [
    ("kernels:40", (2, 50)),
    ("kernels:3", (12, 16)),
    ("kernels:3+statistics", Windows((2, 50), ((0, 1),))),
    ("kernels:3+shape+spectrum", (2, 16)),
    ("relu:60", (2,)),
    ("relu:0", (2,)),
    ("ranks:61", (2,)),
]
SCALING = Scaling(np.array([20, -3], np.float32), np.array([4.3, 0.51], np.float32))


def made(text: str, shape: tuple[int, ...]) -> Encoder:
    encoder = build_encoder(text, 4, shape)
    assert encoder is not None
    return of_person(encoder, samples(shape, 90), None)


def samples(shape: tuple[int, ...], n: int = 300) -> NDArray[np.float32]:
    """Return standardised samples, some of them on the borders of steps and of what is clipped."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((n, *shape)) * 10 ** rng.uniform(-1, 1.2, (n, *[1] * len(shape)))
    x[: n // 3] = np.rint(x[: n // 3] * 512) / 512
    x[0], x[1], x[2] = 0, 100, -100
    x[3:5], x[3, ..., 0], x[4, 0] = 0, 1 / 256, 8
    return x.astype(np.float32)


def features_of(encoder: Encoder) -> Scaling:
    """Return what an encoder's features are standardised with: numbers that round."""
    rng = np.random.default_rng(9)
    mean, std = rng.uniform(-1, 1, encoder.features), rng.uniform(1 / 16, 1, encoder.features)
    return Scaling(mean.astype(np.float32), std.astype(np.float32))


def model(encoder: Encoder) -> PersonalModel:
    chain = mlp(encoder.features, 3, (8,))
    params = {name: tensor[0] for name, tensor in chain.init(1, seed=7).items()}
    card = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
    scaling = replace(SCALING, features=features_of(encoder))
    return PersonalModel("p", "fedavg", 4, params, chain, "mlp", card, scaling, encoder=encoder)


@pytest.mark.parametrize(("text", "shape"), ENCODERS)
def test_the_module_is_the_encoder(text: str, shape: tuple[int, ...]) -> None:
    encoder, x = made(text, shape), samples(shape)
    found = encoder_module(encoder)(torch.from_numpy(x)).numpy()
    assert found.dtype == np.float32 and np.array_equal(found, encoder.encode(x))
    assert len(np.unique(found)) > 60


class Features(PersonalModule):
    """What a model's layers see of samples in the card's units."""

    def forward(self, x: Tensor) -> Tensor:
        return self.seen(x)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        pytest.param("kernels:9", (2, 16), marks=pytest.mark.slow),
        *(pytest.param(*of, marks=LATER) for of in ENCODERS if of[1][0] == 2),
    ],
)
def test_onnx_runtime_gives_our_features_of_raw_samples(
    text: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    encoder = made(text, shape)
    x = samples(shape)
    x = (x.swapaxes(1, -1) * SCALING.std + SCALING.mean).swapaxes(1, -1).astype(np.float32)
    (tmp_path / "f.onnx").write_bytes(
        encode_onnx(Features(model(encoder)), torch.zeros(2, *shape), {})
    )
    run = run_onnx(tmp_path / "f.onnx")
    assert run is not None
    expected = apply(features_of(encoder), encoder.encode(apply(SCALING, x)))
    assert np.array_equal(run(x), expected) and np.array_equal(run(x[7:8]), expected[7:8])


@pytest.mark.parametrize(
    "format", [pytest.param("onnx", marks=LATER), "torchscript", "safetensors"]
)
@pytest.mark.parametrize(
    ("text", "shape"),
    [("kernels:5+statistics", Windows((2, 50), ((0, 1),))), ("ranks:7", (2,))],
)
def test_a_file_maps_raw_samples_to_probabilities(
    text: str, shape: tuple[int, ...], format: str, tmp_path: Path
) -> None:
    if format == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    difference = export(model(made(text, shape)), format, tmp_path / "model")
    # Features being equal, only the layers' last digits differ.
    assert difference is not None and difference < 1e-6
