"""Number formats of tensors: exact, rounded as PyTorch rounds, or within half a step."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from fedsub_core.wire.bundles import FloatArray
from fedsub_core.wire.encoding import FORMATS
from fedsub_core.wire.numbers import WIDTH, pack, pack_differences, unpack
from fedsub_core.wire.numbers import unpack_differences as unpack_xor

LARGEST = np.finfo(np.float32).max
TINY = np.finfo(np.float32).smallest_subnormal
LARGEST_BFLOAT16 = torch.finfo(torch.bfloat16).max
SHAPES = some.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6)


def any_floats(allow_nan: bool = False) -> st.SearchStrategy[FloatArray]:
    numbers = st.floats(width=32, allow_nan=allow_nan, allow_infinity=allow_nan)
    return some.arrays(np.float32, SHAPES, elements=numbers)


def there_and_back(values: FloatArray, numbers: str) -> FloatArray:
    return unpack(*pack(values, numbers), values.shape, numbers)


def bits(values: FloatArray) -> bytes:
    return np.ascontiguousarray(values, "<f4").tobytes()


@given(any_floats(allow_nan=True))
def test_float32_is_exact(values: FloatArray) -> None:
    assert bits(there_and_back(values, "float32")) == bits(values)


@given(any_floats())
def test_bfloat16_rounds_as_pytorch_does_and_never_to_infinity(values: FloatArray) -> None:
    theirs = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
    theirs = np.clip(theirs, -LARGEST_BFLOAT16, LARGEST_BFLOAT16)
    assert bits(there_and_back(values, "bfloat16")) == bits(theirs)


def test_bfloat16_of_every_upper_half_and_its_ties() -> None:
    upper = np.arange(2**16, dtype=np.uint32) << 16
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        values = (upper | lower).view(np.float32)
        values = values[np.isfinite(values)][None]
        theirs = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
        theirs = np.clip(theirs, -LARGEST_BFLOAT16, LARGEST_BFLOAT16)
        assert bits(there_and_back(values, "bfloat16")) == bits(theirs)


def test_bfloat16_known_numbers() -> None:
    ulp = 2.0**-7  # between bfloat16 numbers from 1 to 2
    given = [1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp, -0.0, LARGEST, -LARGEST, TINY]
    wanted = [1, 1 + 2 * ulp, 1 + ulp, -0.0, LARGEST_BFLOAT16, -LARGEST_BFLOAT16, 0]
    got = there_and_back(np.array([given], np.float32), "bfloat16")
    assert bits(got) == bits(np.array([wanted], np.float32))


@pytest.mark.parametrize("pattern", [0x7F800000, 0xFF800000, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_bfloat16_keeps_what_is_not_finite_refusable(pattern: int) -> None:
    values = np.array([[pattern]], np.uint32).view(np.float32)
    assert not np.isfinite(there_and_back(values, "bfloat16")).any()


MODERATE = st.floats(-(2.0**100), 2.0**100, width=32)


@given(some.arrays(np.float32, SHAPES, elements=MODERATE))
def test_int8_errs_by_half_a_step_at_most(values: FloatArray) -> None:
    exact = values.astype(np.float64)
    error = np.abs(there_and_back(values, "int8") - exact).max(axis=1)
    half_step = (exact.max(axis=1) - exact.min(axis=1)) / 510
    # Beside half a step: float32 rounds scale, product and sum, and knows no step below TINY.
    rounding = 4 * np.abs(exact).max(axis=1) * np.finfo(np.float32).eps + 255 * TINY
    assert (error <= half_step + rounding).all()


def test_int8_uses_all_256_steps_and_keeps_the_ends_of_a_row() -> None:
    row = np.linspace(-1, 1, 256, dtype=np.float32)[None]
    codes, scales = pack(row, "int8")
    assert list(codes) == list(range(256))
    np.testing.assert_allclose(np.frombuffer(scales, "<f4"), [2 / 255, -1])
    np.testing.assert_allclose(there_and_back(row, "int8"), row, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 1e-45, 3e38])
def test_int8_is_exact_for_constant_rows(value: float) -> None:
    rows = np.full((2, 5), value, np.float32)
    np.testing.assert_array_equal(there_and_back(rows, "int8"), rows)


@pytest.mark.parametrize("numbers", FORMATS)
@pytest.mark.parametrize("shape", [(0, 3), (0, 1), (4, 1)])
def test_every_format_takes_no_rows_and_single_numbers(
    numbers: str, shape: tuple[int, int]
) -> None:
    values = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    data, scales = pack(values, numbers)
    assert len(data) == WIDTH[numbers] * values.size
    assert len(scales) == (8 * shape[0] if numbers == "int8" else 0)
    np.testing.assert_array_equal(unpack(data, scales, shape, numbers), values)


@given(SHAPES.flatmap(lambda s: st.tuples(*[some.arrays(np.uint32, s)] * 2)))
def test_differences_are_exact_for_all_bit_patterns(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    values, reference = (p.view(np.float32) for p in pair)
    data = pack_differences(values, reference)
    assert len(data) == values.nbytes
    assert bits(unpack_xor(data, reference)) == bits(values)


def test_differences_put_bytes_of_one_place_together() -> None:
    values = np.array([[1.0, -0.0]], np.float32)  # 00 00 80 3f, 00 00 00 80
    assert pack_differences(values, np.zeros((1, 2), np.float32)).hex() == "0000000080003f80"
    assert pack_differences(values, values) == bytes(8)
    none = np.zeros((0, 4), np.float32)
    assert unpack_xor(pack_differences(none, none), none).shape == (0, 4)
