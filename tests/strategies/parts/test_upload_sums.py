"""Sums over uploads by weights that clipping may have made small."""

import numpy as np
import pytest

from strategies.parts.upload_sums import summed


@pytest.mark.parametrize("size", [1e6, 1e14, 1e30])
def test_who_is_shortened_to_next_to_nothing_makes_no_numbers_coarser(size: float) -> None:
    honest = np.linspace(0.01, 0.05, 1000, dtype=np.float32)
    liar = np.zeros(1000, np.float32)
    liar[0] = size
    found = summed({"w": [honest, honest, liar]}, [0.5, 0.4, 0.1 / size])["w"]
    expected = 0.9 * honest.astype(float)
    assert found[1:] == pytest.approx(expected[1:], rel=1e-12)
