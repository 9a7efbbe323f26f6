"""Encoders: sums of integers, the same bits in any stack, and the first of a larger one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedsub.testing.refusals import refused
from fedsub_core.data.sensors import Windows
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import Draws, Encoder, quantised
from fedsub_core.encoders.kernels_encoder import Kernel, KernelsEncoder, sums
from fedsub_core.encoders.names import check_encoder, resolve_encoder
from fedsub_core.encoders.relu_encoder import ReluEncoder, Unit
from fedsub_core.errors import ConfigError

SHAPES: list[tuple[str, tuple[int, ...]]] = [
    ("kernels:30", (3, 128)),
    ("kernels:30", (1, 16)),
    ("kernels:30", (14, 37)),
    ("kernels:10+statistics", Windows((4, 40), ((0, 1, 3),))),
    ("kernels:10+autocorrelation", (2, 16)),
    ("relu:30", (1,)),
    ("relu:30", (45,)),
    ("relu:0", (7,)),
]


def made(text: str, shape: tuple[int, ...], seed: int = 3) -> Encoder:
    encoder = build_encoder(text, seed, shape)
    assert encoder is not None
    return encoder


def samples(shape: tuple[int, ...], n: int = 70) -> NDArray[np.float32]:
    rng = np.random.default_rng(5)
    return (rng.standard_normal((n, *shape)) * rng.uniform(0.1, 4)).astype(np.float32)


@pytest.mark.parametrize(("text", "shape"), SHAPES)
def test_a_sample_has_the_same_bits_alone_and_in_any_stack(
    text: str, shape: tuple[int, ...], either: str
) -> None:
    encoder, x = made(text, shape), samples(shape)
    found = encoder.encode(x)
    assert found.dtype == np.float32 and found.shape == (70, encoder.features)
    assert encoder.text == text and np.ptp(found) > 0.5
    assert found.min() >= -1 and found.max() < 1 and np.array_equal(found * 128 % 1, found * 0)
    assert np.array_equal(found, np.concatenate([encoder.encode(one[None]) for one in x]))
    assert np.array_equal(found[::-1], encoder.encode(x[::-1]))


@pytest.mark.parametrize("shape", [(9, 128), (20,)])
def test_fewer_are_the_first_of_more(shape: tuple[int, ...]) -> None:
    kind = "kernels" if len(shape) == 2 else "relu"
    few, many = (made(f"{kind}:{n}", shape) for n in (20, 50))
    x = samples(shape)
    assert np.array_equal(few.encode(x), many.encode(x)[:, : few.features])
    assert not np.array_equal(many.encode(x), made(many.text, shape, seed=4).encode(x))


@pytest.mark.parametrize(("text", "shape"), SHAPES)
def test_a_weak_devices_features_are_the_first(
    text: str, shape: tuple[int, ...], either: str
) -> None:
    whole, x = made(text, shape), samples(shape)
    assert whole.narrow(1.0) == whole
    for capacity in (0.5, 0.25, 1e-9):
        narrow = whole.narrow(capacity)
        drawn = max(round(capacity * whole.size), 1 if text.startswith("kernels") else 0)
        assert (narrow.size, narrow.seed) == (drawn, whole.seed)
        assert np.array_equal(narrow.encode(x), whole.encode(x)[:, : narrow.features])


def test_a_kernels_sums_are_a_dilated_convolution() -> None:
    encoder = KernelsEncoder(40, 1, (5, 90))
    x = samples((5, 90))
    steps, tensor = quantised(x), torch.from_numpy(quantised(x)).double()
    dilations = set()
    for kernel, found in zip(encoder.kernels, _shares(encoder, x), strict=True):
        weight = torch.zeros(1, 5, 9, dtype=torch.float64)
        weight[0, list(kernel.channels)] = -1
        for place in kernel.places:
            weight[0, list(kernel.channels), place] = 2
        reach = 4 * kernel.dilation
        z = torch.conv1d(tensor, weight, padding=reach, dilation=kernel.dilation)[:, 0]
        assert np.array_equal(sums(kernel, steps), z.numpy())
        above = torch.stack([(z > t).double().mean(1) for t in kernel.thresholds], 1).numpy()
        # Shares in 255 steps, rounded.
        assert np.abs((found[:, :4] * 128 + 128) / 255 - above).max() <= 0.5 / 255 + 1e-6
        full = 4 * 256 * np.sqrt(18 * len(kernel.channels))
        most = np.clip(z.max(1).values.numpy() / full, -1, 127 / 128)
        assert np.abs(found[:, 4] - most).max() < 0.02
        dilations.add(kernel.dilation)
    assert 1 in dilations and max(dilations) > 5 and max(dilations) <= 89 // 8


def test_answers_are_those_of_aeons_minirocket_and_rocket(either: str) -> None:
    """Written down once, of aeon 1.6.0 given our kernels as benchmarks/aeon_check.py does."""
    i = np.arange(2 * 2 * 40)
    steps = ((i * i * 7 + i * 13) % 1021 - 510).reshape(2, 2, 40).astype(np.int16)
    above = np.array(
        [
            [[28, 12, 15, 32], [29, 21, 5, 21], [22, 20, 32, 31]],
            [[28, 12, 13, 31], [29, 19, 6, 23], [19, 17, 32, 28]],
        ]
    )
    greatest = np.array([[2855, 2724, 3741], [3918, 2724, 4662]])
    encoder = KernelsEncoder(3, 0, (2, 40))
    found = encoder.levels(steps).reshape(2, 3, 5).astype(int)
    assert np.array_equal(found[:, :, :4], np.floor(255 * above / 40 + 0.5) - 128)
    levels = np.array([kernel.level for kernel in encoder.kernels])
    assert np.array_equal(found[:, :, 4], np.minimum(np.floor(greatest / levels + 0.5), 127))


def _shares(encoder: Encoder, x: NDArray[np.float32]) -> NDArray[np.float32]:
    return encoder.encode(x).reshape(len(x), -1, 5).swapaxes(0, 1)


def test_kernels_of_short_windows_fit_into_them_and_take_few_channels() -> None:
    assert {k.dilation for k in KernelsEncoder(50, 0, (2, 16)).kernels} == {1}
    many = KernelsEncoder(300, 0, (40, 64)).kernels
    counts = [len(k.channels) for k in many]
    assert (min(counts), max(counts)) == (1, 9)
    assert len({c for k in many for c in k.channels}) == 40
    # What float32 holds exactly, weights' sizes being 12 in all.
    assert max(counts) * 12 * 2048 < 2**24


def test_units_are_of_one_to_three_inputs_and_of_length_one() -> None:
    encoder = ReluEncoder(200, 0, (10,))
    assert {len(u.inputs) for u in encoder.units} == {1, 2, 3}
    for unit in encoder.units:
        assert abs(np.linalg.norm(unit.weights) / 64 - 1) < 0.03
        assert abs(unit.bias) <= 64 * 256
        assert sum(map(abs, unit.weights)) * 2048 + abs(unit.bias) < 2**24
    x = np.clip(samples((10,)), -8, 7.9)
    found = encoder.encode(x)
    assert np.abs(found[:, :10] - x / 8).max() <= 0.5 / 128 + 1 / 2048
    weights = np.zeros((10, 200))
    for i, unit in enumerate(encoder.units):
        weights[list(unit.inputs), i] = np.array(unit.weights) / 64
    z = x @ weights + np.array([u.bias for u in encoder.units]) / (64 * 256)
    expected = np.clip(np.maximum(z, 0) / 4, 0, 127 / 128)
    assert np.abs(found[:, 10:] - expected).max() <= 0.5 / 128 + 0.002


def test_samples_are_in_steps_and_clipped_at_eight_deviations() -> None:
    x = np.array([0, 1 / 512, 3 / 512, -1 / 512, 1, 8, 9, -8, -1e38, 3e38, np.inf], np.float32)
    expected = [0, 0, 2, 0, 256, 2047, 2047, -2048, -2048, 2047, 2047]
    assert quantised(x).tolist() == expected


@pytest.mark.parametrize("constant", [0.0, 5.0, 1e30])
def test_a_constant_channel_has_features_like_any_other(constant: float) -> None:
    x = samples((2, 40))
    x[:, 1] = constant
    found = made("kernels:50", (2, 40)).encode(x)
    assert np.isfinite(found).all() and len(np.unique(found, axis=0)) == len(x)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: made("kernels:5", (3, 15)), r"kernels:5: got samples of shape \(3, 15\), expect"),
        (
            lambda: made("kernels:5", (30,)),
            r"kernels:5: got samples of shape \(30,\), expected win",
        ),
        (lambda: made("kernels:5", (1, 30, 30)), r"shape \(1, 30, 30\), expected none"),
        (
            lambda: made("relu:5", (3, 128)),
            r"relu:5: got samples of shape \(3, 128\), expected fea",
        ),
        (lambda: check_encoder("kernels:0"), "got encoder 'kernels:0', expected auto, none, kerne"),
        (lambda: check_encoder("kernels:-3"), "got encoder 'kernels:-3'"),
        (lambda: check_encoder("kernels:1.5"), r"got encoder 'kernels:1\.5'"),
        (lambda: check_encoder("kernel:100"), "Did you mean 'kernels:100'"),
        (lambda: check_encoder("kernels:20000"), "makes 100,000 features, 400,000 bytes a sample"),
        (lambda: check_encoder("relu:65537"), "makes 65,537 features, .* expected 65,536 features"),
    ],
)
def test_what_does_not_fit_is_refused(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()


def test_what_takes_too_much_memory_is_refused() -> None:
    encoder = made("kernels:100", (3, 128))
    encoder.check_memory(4_000_000)
    with refused(ConfigError, got=["5,000,000 samples", "500 features", "9.3 GiB"]):
        encoder.check_memory(5_000_000)


def test_auto_is_what_the_card_says_and_the_samples_are() -> None:
    assert resolve_encoder("auto", False, (3, 128)) == "none"
    assert resolve_encoder("auto", True, (3, 128)) == "kernels:100+statistics"
    assert resolve_encoder("auto", True, (45,)) == "ranks:450"
    assert resolve_encoder("kernels:7", False, (3, 128)) == "kernels:7"
    assert build_encoder("none", 0, (3, 128)) is None


def test_draws_are_what_they_were() -> None:
    """Numbers written down once: a device of another version must draw the same."""
    draws = Draws(0)
    assert [draws.below(84) for _ in range(5)] == [66, 59, 76, 22, 19]
    assert KernelsEncoder(2, 0, (3, 128)).kernels == (
        Kernel(8, (0, 2), (0, 4, 6), (-784, 902, 748, -1214), 48),
        Kernel(9, (0,), (3, 4, 5), (-743, 155, 1065, -72), 34),
    )
    assert ReluEncoder(2, 0, (10,)).units == (
        Unit((2, 7, 9), (-36, -34, 40), 7981),
        Unit((8,), (-64,), -8761),
    )
