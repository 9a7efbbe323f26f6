"""Encoders written from docs/wire-format.md alone: the page is enough, and true."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fedsub_core.data.sensors import Sensors, Windows, sensors_of
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import quantised

THREE: Sensors = ((0, 2, 5), (1, 3))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("kernels:12", (1, 16)),
        ("kernels:12", (11, 60)),
        ("kernels:1+statistics", (1, 16)),
        ("kernels:1+statistics", Windows((10, 60), THREE)),
        ("kernels:1+statistics", Windows((6, 200), THREE)),
        ("kernels:1+shape+spectrum", Windows((6, 20), THREE)),
        ("relu:40", (1,)),
        ("relu:40", (30,)),
        ("ranks:41", (30,)),
    ],
)
def test_features_are_ours(bare: Any, text: str, shape: tuple[int, ...]) -> None:
    encoder, rng = build_encoder(text, 2**63 - 1, shape), np.random.default_rng(1)
    assert encoder is not None
    scale = rng.choice([0.01, 0.2, 1, 9], (20, *[1] * len(shape)))
    x = (rng.standard_normal((20, *shape)) * scale).astype(np.float32)
    x[:3], x[1, ..., 0], x[2, 0] = 0, 9, 9
    encode = import_module("bare_device.encoder").encode
    assert np.array_equal(encode(text, 2**63 - 1, x, sensors_of(shape)), encoder.encode(x))
    for own in (x[:9], x[:1], x):
        found = encode(text, 2**63 - 1, x, sensors_of(shape), own)
        assert np.array_equal(found, encoder.of_person(quantised(own)).encode(x))
