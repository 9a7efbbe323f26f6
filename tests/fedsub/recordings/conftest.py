"""A random stream of each test."""

from zlib import crc32

import numpy as np
import pytest


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(crc32(request.node.name.encode()))
