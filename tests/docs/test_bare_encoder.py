"""Encoders written from docs/wire-format.md alone: the page is enough, and true."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fedsub_core.encoders.build import build_encoder


@pytest.mark.parametrize(
    ("text", "shape"),
    [("kernels:12", (1, 16)), ("kernels:12", (11, 60)), ("relu:40", (1,)), ("relu:40", (30,))],
)
def test_features_are_ours(bare: Any, text: str, shape: tuple[int, ...]) -> None:
    encoder, rng = build_encoder(text, 2**63 - 1, shape), np.random.default_rng(1)
    assert encoder is not None
    scale = rng.choice([0.2, 1, 9], (20, *[1] * len(shape)))
    x = (rng.standard_normal((20, *shape)) * scale).astype(np.float32)
    found = import_module("bare_device.encoder").encode(text, 2**63 - 1, x)
    assert np.array_equal(found, encoder.encode(x))
