"""Exponentials and logarithms of our own are the floats next to the true numbers."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

KERNELS = Path(__file__).resolve().parents[3] / "fedsub_core" / "kernels"
SOURCE = """
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "elementary.h"
#define EACH(name) void name##s(const float *x, int64_t n, float *to) { \\
    for (int64_t i = 0; i < n; i++) to[i] = name(x[i]); }
EACH(exponential)
EACH(logarithm)
"""


@pytest.fixture(scope="module", params=["-O0", "-O3"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    """Both functions over arrays."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("elementary")
    (folder / "each.c").write_text(SOURCE)
    options = [request.param, "-ffp-contract=fast", "-shared", "-fPIC", f"-I{KERNELS}"]
    command = ["cc", *options, str(folder / "each.c"), "-o", str(folder / "each.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "each.so"))


def of(compiled: object, name: str, x: np.ndarray) -> np.ndarray:
    found = np.empty_like(x)
    places = (ctypes.c_void_p(array.ctypes.data) for array in (x, found))
    function = getattr(compiled, name)
    function(next(places), ctypes.c_int64(x.size), next(places))
    return found


def test_exponentials_are_the_nearest_floats(compiled: object) -> None:
    x = np.concatenate([np.linspace(-104, 89, 400_001), [0, -0.0, 88.72, -103.97, -87.4]])
    x = x.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(of(compiled, "exponentials", x), expected)
    ends = np.array([-np.inf, np.inf, np.nan, -1e30, 1e30, -150, 150], np.float32)
    right = np.array([0, np.inf, np.nan, 0, np.inf, 0, np.inf], np.float32)
    np.testing.assert_array_equal(of(compiled, "exponentials", ends), right)


def test_logarithms_are_the_nearest_floats(compiled: object) -> None:
    x = np.concatenate([np.geomspace(1e-45, 3e38, 400_001), np.linspace(0.9, 1.1, 100_001)])
    x = x.astype(np.float32)
    expected = np.log(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(of(compiled, "logarithms", x), expected)
    ends = np.array([0, -0.0, -1, np.inf, -np.inf, np.nan], np.float32)
    right = np.array([-np.inf, -np.inf, np.nan, np.inf, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(of(compiled, "logarithms", ends), right)
