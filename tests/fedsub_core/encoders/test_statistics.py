"""Statistics of windows: what they measure, the same bits in C and NumPy, also at the extremes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub.testing.refusals import refused
from fedsub_core.data.sensors import Sensors, Windows
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import quantised
from fedsub_core.encoders.names import GROUPS, parse_encoder, resolve_encoder
from fedsub_core.encoders.spectrum import EDGES, length_of, transform, turns
from fedsub_core.encoders.statistics_encoder import LAGS, StatisticsEncoder, pairs
from fedsub_core.encoders.whole import octaves, root
from fedsub_core.errors import ConfigError
from fedsub_core.kernels import library

TIME = np.arange(200)


def made(shape: tuple[int, ...], groups: tuple[str, ...] = GROUPS) -> StatisticsEncoder:
    return StatisticsEncoder(1, 0, shape, groups)


def levels(x: NDArray[np.floating], group: str, each: int, sensors: Sensors = ()) -> Any:
    """Return a group's levels of windows in deviations, ``[n, series, each]``."""
    shape = Windows(x.shape[1:], sensors) if sensors else x.shape[1:]
    encoder = made(shape, (group,))
    found = encoder.levels(quantised(x.astype(np.float32)))[:, : encoder.statistics]
    return found.reshape(len(x), -1, each).astype(int)


def test_roots_and_logs_are_exact_to_the_last_unit() -> None:
    rng = np.random.default_rng(1)
    near = np.concatenate([rng.integers(0, 2**29, 500) ** 2, 2 ** np.arange(0, 58, 2)])
    for n in (near - 1, near, near + 1):
        r = root(np.maximum(n, 0))
        assert (r * r <= np.maximum(n, 0)).all() and ((r + 1) ** 2 > np.maximum(n, 0)).all()
    n = np.unique(np.concatenate([rng.integers(1, 2**56, 500), 2 ** np.arange(57)]))
    # A straight line between powers of two is 0.086 of an octave below the curve at most.
    assert (np.abs(octaves(n) / 32 - np.log2(n) + 0.043) < 0.08).all()
    assert (np.diff(octaves(n)) >= 0).all() and octaves(np.array([2**56])) == 32 * 56


def test_shape_is_skewness_kurtosis_and_zero_crossings(either: str) -> None:
    rng = np.random.default_rng(2)
    x = np.stack([rng.exponential(1, (3, 200)), rng.standard_normal((3, 200)) / 4], 1)
    x[:, :, 0] = 2
    z = (x - x.mean(2, keepdims=True)) / x.std(2, keepdims=True)
    found = levels(x, "shape", 3)
    assert np.abs(found[:, :, 0] - np.clip(32 * (z**3).mean(2), -128, 127)).max() < 3
    assert np.abs(found[:, :, 1] - np.clip(32 * np.log2((z**4).mean(2)) - 64, -128, 127)).max() < 5
    crossings = (z[:, :, 1:] * z[:, :, :-1] < 0).mean(2)
    assert np.abs((found[:, :, 2] + 128) / 255 - crossings).max() < 0.03


def test_autocorrelation_and_correlations_are_numpys(either: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 3, 200)).cumsum(2) / 8
    x[:, 1] += x[:, 0]
    c = x - x.mean(2, keepdims=True)
    whole = (c**2).sum(2)
    expected = [(c[:, :, lag:] * c[:, :, :-lag]).sum(2) / whole for lag in LAGS]
    found = levels(x, "autocorrelation", 4)
    assert np.abs(found - np.clip(128 * np.stack(expected, 2), -128, 127)).max() <= 1.5
    correlated = np.stack([np.corrcoef(one)[[0, 1, 0], [1, 2, 2]] for one in x])
    found = levels(x, "correlations", 3)[:, 0]
    assert np.abs(found - np.clip(128 * correlated, -128, 127)).max() <= 1.5


def test_a_spectrum_says_where_the_power_is(either: str) -> None:
    for cell in (1, 4, 20, 50):
        # 256 values are transformed, so a cell is 1/128 of a turn a step.
        wave = np.cos(2 * np.pi * (cell + 0.75) / 128 * TIME)[None, None]
        one, two = levels(wave, "spectrum", 10)[0, 0], levels(wave / 4, "spectrum", 10)[0, 0]
        assert one[9] == two[9] == 4 * cell - 128
        band = int(np.searchsorted(EDGES, cell, "right")) - 1
        assert one[:8].argmax() == band
        # Power in octaves: a mean square of 128**2 * 2 steps is 15 octaves, 7 above the middle.
        assert abs(one[band] - 7 * 32 / 3) < 5 and abs(one[band] - two[band] - 4 * 32 / 3) <= 2
        assert one[8] < -20
    noise = np.random.default_rng(4).standard_normal((20, 1, 200))
    assert (levels(noise, "spectrum", 10)[:, 0, 8] > 80).all()


def test_a_transform_is_numpys() -> None:
    rng = np.random.default_rng(5)
    for time in (16, 128, 200, 5000):
        x, length = rng.integers(-2048, 2048, (2, time)), length_of(time)
        re, im = transform(x, length)
        expected = np.fft.fft(x, length) / (length / 64)
        assert np.abs(re + 1j * im - expected).max() < 2**-9 * np.abs(expected).max()


def test_no_cosine_is_near_a_half() -> None:
    """Where a library's cosine is one digit off, it is still rounded to the same number."""
    for bits in range(7, 19):
        angle = 2 * np.pi * np.arange(2 ** (bits - 1)) / 2**bits
        of = 4096 * np.stack([np.cos(angle), -np.sin(angle)], 1)
        assert np.abs(np.abs(of - np.floor(of)) - 0.5).min() > 1e-9
        assert np.array_equal(turns(2**bits), np.floor(of + 0.5))


def test_a_norm_is_of_its_sensors_channels(either: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((3, 5, 64))
    x[:, 4] = (
        np.floor(np.sqrt((quantised(x[:, [0, 3]].astype(np.float32)).astype(float) ** 2).sum(1)))
        / 256
    )
    found = levels(x, "spectrum", 10, ((0, 3),))
    assert np.array_equal(found[:, 5], found[:, 4]) and found.shape[1] == 6
    assert not np.array_equal(found[:, 5], levels(x, "spectrum", 10, ((0, 1),))[:, 5])


def extremes(n: int, channels: int, time: int) -> NDArray[np.int16]:
    """Return random windows, the first of them as loud, quiet and odd as there are."""
    rng = np.random.default_rng(7)
    steps = rng.integers(-2048, 2048, (n, channels, time)).astype(np.int16)
    t = np.arange(time)
    steps[0], steps[1], steps[2] = 0, -2048, 2047
    steps[3] = np.where(t % 2, 2047, -2048)
    steps[4] = np.where(t < time // 2, 2047, -2048)
    steps[5] = np.where(t == time // 3, -2048, 2047)
    steps[6], steps[6, 0, 0] = 0, 1
    steps[7] >>= 10
    steps[8] = np.where(steps[8] < 0, -2048, 2047)
    return steps


SHAPES = [
    (1, 16),
    Windows((3, 17), ((0, 1, 2),)),
    Windows((9, 200), ((0, 3), (1, 2, 4, 8))),
    Windows((60, 24), tuple((i, i + 1, i + 2) for i in range(0, 60, 3))),
    Windows((2, 30_000), ((0, 1),)),
]


@pytest.mark.parametrize("variant", ["avx512", "avx2", "portable"])
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_statistics_are_numpys(
    shape: tuple[int, int], variant: str, kernels: library.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, variant)
    try:
        assert library.kernels()
    except ConfigError:
        pytest.skip(f"this processor has no {variant}")
    encoder, steps = made(shape), extremes(12, *shape)
    found = encoder.levels(steps)
    with library.switched_off():
        expected = encoder.levels(steps)
        assert np.array_equal(np.concatenate([encoder.levels(one[None]) for one in steps]), found)
    assert np.array_equal(found, expected)
    assert np.array_equal(encoder.levels(np.asfortranarray(steps)[::-1]), expected[::-1])


@pytest.mark.slow
def test_the_longest_windows_overflow_nowhere(kernels: library.Kernels) -> None:
    encoder, steps = made(Windows((2, 2**18), ((0, 1),))), extremes(9, 2, 2**18)
    found = encoder.levels(steps)
    with library.switched_off():
        assert np.array_equal(found, encoder.levels(steps))
    for one in steps:
        # 32 bits are enough for what is compiled.
        parts = transform(one.astype(np.int64), 2**18)
        assert max(np.abs(part).max() for part in parts) < 2**18.01


def test_statistics_come_first_and_kernels_are_those_of_kernels_alone(either: str) -> None:
    shape = Windows((6, 50), ((0, 1, 2), (3, 4, 5)))
    x = np.random.default_rng(8).standard_normal((5, *shape)).astype(np.float32)
    whole = build_encoder("kernels:20+statistics", 3, shape)
    alone = build_encoder("kernels:20", 3, shape)
    assert isinstance(whole, StatisticsEncoder) and alone is not None
    assert (whole.statistics, whole.features) == (17 * 8 + 15, 251)
    assert np.array_equal(whole.encode(x)[:, 151:], alone.encode(x))
    some = build_encoder("kernels:20+shape+spectrum", 3, shape)
    assert some is not None and some.text == "kernels:20+shape+spectrum"
    assert np.array_equal(some.encode(x)[:, :24], whole.encode(x)[:, :24])
    narrow = whole.narrow(0.25)
    assert (narrow.text, narrow.features) == ("kernels:5+statistics", 176)
    assert np.array_equal(narrow.encode(x), whole.encode(x)[:, :176])
    assert not len(whole.encode(x[:0])) and whole.encode(x[:0]).shape == (0, 251)


def test_pairs_are_neighbours_first_and_few() -> None:
    assert pairs(1) == () and pairs(3) == ((0, 1), (1, 2), (0, 2))
    assert len(pairs(9)) == len(pairs(60)) == 36 and pairs(60)[-1] == (35, 36)
    features = [
        made(Windows((n, 50), tuple((i, i + 1, i + 2) for i in range(0, n, 3)))).features
        for n in (3, 6, 9, 60)
    ]
    assert features == [76, 156, 245, 1401]


def test_auto_hears_statistics_of_up_to_64_channels() -> None:
    assert resolve_encoder("auto", True, (64, 16)) == "kernels:100+statistics"
    assert resolve_encoder("auto", True, (65, 16)) == "kernels:100"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kernels:5+shap", "group 'shap'.*Did you mean 'shape'"),
        ("kernels:5+", "group ''"),
        ("kernels:5+statistics+shape", "group 'statistics'.*alone"),
        ("kernels:5+spectrum+shape", r"in one order: kernels:5\+shape\+spectrum"),
        ("kernels:5+shape+shape", r"each group once, in one order: kernels:5\+shape"),
        ("kernels:5+" + "+".join(GROUPS), r"in one order: kernels:5\+statistics"),
        ("relu:5+shape", r"got encoder 'relu:5\+shape'"),
    ],
)
def test_groups_that_are_none_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_encoder(text)


@pytest.mark.parametrize(
    ("build", "got"),
    [
        (lambda: made((3, 15)), [(3, 15)]),
        (lambda: made((1, 2**18 + 1)), ["262,145"]),
        (lambda: made((5000, 16)), ["5,000 channels", "85,041 features"]),
    ],
)
def test_windows_that_do_not_fit_are_refused(build: Callable[[], Any], got: list[Any]) -> None:
    with refused(ConfigError, "kernels:1+statistics", got=got):
        build()
