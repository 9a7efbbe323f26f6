"""Stacks of random samples, and models of every kind of layer."""

from collections.abc import Callable

import numpy as np
import pytest

from fedsub_core.data.stacks import Stack, stack
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.layers import Conv, Flatten, Linear, Pool, ReLU

IMAGE = Chain(
    (
        Conv("conv1", 5, 2, (3, 2), (2, 1), (1, 0)),
        ReLU(),
        Pool("avg", (2, 2)),
        Flatten(),
        Linear("linear1", 3, 5 * 2 * 3),
    ),
    (2, 7, 8),
)
MODELS = {"mlp": mlp(3, 6), "cnn1d": cnn1d(2, 40, 4), "image": IMAGE}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Chain:
    """Each of a few models."""
    return MODELS[request.param]


@pytest.fixture(scope="session")
def random_stack() -> Callable[..., Stack]:
    """Make a stack of clients of random samples."""

    def make(model: Chain, counts: tuple[int, ...] = (5, 100, 33, 64)) -> Stack:
        rng = np.random.default_rng(0)
        xs = [rng.standard_normal((n, *model.input_shape), np.float32) for n in counts]
        ys = [rng.integers(0, model.classes, n) for n in counts]
        return stack([f"c{i}" for i in range(len(counts))], xs, ys)

    return make
