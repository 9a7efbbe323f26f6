"""Compiled features of windows are NumPy's, to the bit, for every instruction set."""

import numpy as np
import pytest

from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.errors import ConfigError
from fedsub_core.kernels import library
from fedsub_core.kernels.library import Kernels


@pytest.mark.parametrize("variant", ["avx512", "avx2", "portable"])
def test_features_are_numpys(
    variant: str, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, variant)
    try:
        assert library.kernels()
    except ConfigError:
        pytest.skip(f"this processor has no {variant}")
    rng = np.random.default_rng(8)
    for seed in range(40):
        channels, time = int(rng.integers(1, 20)), int(rng.integers(16, 300))
        encoder = KernelsEncoder(12, seed, (channels, time))
        # To the borders of what is clipped, too: the greatest sums there are.
        steps = rng.integers(-2048, 2048, (5, channels, time)).astype(np.int16)
        steps[1], steps[2, 0], steps[3] = -2048, 2047, np.where(steps[3] < 0, -2048, 2047)
        found = encoder.levels(steps)
        with library.switched_off():
            expected = encoder.levels(steps)
        assert np.array_equal(found, expected), (seed, channels, time)
        assert np.ptp(found.astype(int)) > 100
        turned = np.asfortranarray(steps)[::-1]
        assert np.array_equal(encoder.levels(turned), expected[::-1])
