"""Standardised and quantised samples, and sums of closed forms, are NumPy's to the bit."""

import numpy as np
import pytest

from fedsub_core.closed_form.grids import packed
from fedsub_core.closed_form.sums import UNIT, statistics
from fedsub_core.data.standardise import Scaling, apply
from fedsub_core.encoders.encoder import quantised
from fedsub_core.kernels import library
from fedsub_core.kernels.library import Kernels

BAD_SAMPLES, BAD_CALL = -3, -4


@pytest.fixture(params=["", "portable"])
def either(
    request: pytest.FixtureRequest, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> Kernels:
    """The best kernels of this processor, and the portable ones."""
    monkeypatch.setenv(library.VARIABLE, request.param)
    found = library.kernels()
    assert found is not None
    return found


def draws() -> np.random.Generator:
    return np.random.default_rng(5)


def at(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_samples_are_standardised(either: Kernels) -> None:
    rng = draws()
    x = (rng.standard_normal((7, 3, 13)) * 5).astype(np.float32)
    mean, std = rng.standard_normal(3, np.float32), rng.random(3, np.float32) + 0.1
    x[0, 0, :3] = np.inf, -np.inf, np.nan
    out = np.zeros_like(x)
    assert either.standardise(at(x), *x.shape, at(mean), at(std), at(out)) == 0
    np.testing.assert_array_equal(out, apply(Scaling(mean, std), x))
    vectors, there = x.reshape(91, 3).copy(), x.reshape(91, 3).copy()
    assert either.standardise(at(there), 91, 3, 1, at(mean), at(std), at(there)) == 0
    np.testing.assert_array_equal(there, apply(Scaling(mean, std), vectors))
    for wrong in (0.0, -1.0, np.nan):
        std[1], before = wrong, out.copy()
        assert either.standardise(at(x), *x.shape, at(mean), at(std), at(out)) == BAD_CALL
        np.testing.assert_array_equal(out, before)


def test_samples_are_quantised(either: Kernels) -> None:
    halves = (np.arange(-4200, 4200, dtype=np.float32) + 0.5) / 512
    x = np.concatenate([halves, draws().standard_normal(999, np.float32), [np.inf, -np.inf, -0.0]])
    x = x.astype(np.float32)
    steps = np.zeros(len(x), np.int16)
    assert either.quantise(at(x), len(x), at(steps)) == 0
    np.testing.assert_array_equal(steps, quantised(x))
    assert (steps.min(), steps.max()) == (-2048, 2047)
    x[-1], steps[:] = np.nan, 7
    assert either.quantise(at(x), len(x), at(steps)) == BAD_SAMPLES
    assert (steps == 7).all()
    assert either.quantise(at(x), -1, at(steps)) == BAD_SAMPLES


@pytest.mark.parametrize("samples", [0, 1, 31, 1024, 2500])
def test_sums_are_those_of_the_closed_form(samples: int, either: Kernels) -> None:
    features, classes = 21, 4
    levels = draws().integers(-128, 128, (samples, features)).astype(np.int8)
    levels[: samples // 2] = -128  # the greatest products there are
    y = draws().integers(0, classes, samples)
    expected = statistics(levels.astype(np.float32) / UNIT, y, classes)
    gram = np.ones(packed(features), np.int64)
    cross = np.ones((classes, features + 1), np.int64)
    of = at(levels), at(y), samples, features, classes
    assert either.sums(*of, at(gram), at(cross)) == 0
    np.testing.assert_array_equal(gram, expected.gram + 1)  # they are added to
    np.testing.assert_array_equal(cross, expected.cross + 1)


def test_sums_of_what_is_not_there_are_refused(either: Kernels) -> None:
    levels, y = np.ones((3, 5), np.int8), np.array([0, 1, 2])
    gram, cross = np.zeros(packed(5), np.int64), np.zeros((3, 6), np.int64)

    def sums(samples: int = 3, features: int = 5, classes: int = 3) -> int:
        return either.sums(at(levels), at(y), samples, features, classes, at(gram), at(cross))

    assert sums(classes=2) == sums(samples=-1) == sums(features=0) == BAD_SAMPLES
    assert sums(classes=0) == BAD_CALL
    assert either.sums(None, at(y), 3, 5, 3, at(gram), at(cross)) == BAD_SAMPLES
    assert either.sums(at(levels), at(y), 3, 5, 3, None, at(cross)) == BAD_CALL
    assert not gram.any() and not cross.any()
