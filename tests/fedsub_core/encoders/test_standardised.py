"""What a model sees of samples: features as a model that is trained by gradients wants them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.data.standardise import Moments, Scaling, apply, moments, scaling
from fedsub_core.data.watch import watch_federation
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.encoders.standardised import (
    LEAST_SPREAD,
    feature_moments,
    feature_scaling,
    seen,
    shared_features,
)


def windows() -> NDArray[np.float32]:
    """Real smartwatch windows of one person."""
    return next(iter(watch_federation().clients.values())).x


def made(text: str, shape: tuple[int, ...]) -> Encoder:
    encoder = build_encoder(text, 3, shape)
    assert encoder is not None
    return encoder


@pytest.mark.parametrize("text", ["kernels:30", "relu:60"])
def test_one_persons_features_are_centred_and_of_one_size(text: str) -> None:
    x = windows() if text.startswith("kernels") else windows().mean(2)
    encoder = made(text, x.shape[1:])
    own = scaling(moments(x))
    found = feature_scaling(feature_moments(encoder, x))
    plain = seen(x, own, encoder)
    assert np.array_equal(plain, encoder.encode(apply(own, x)))
    standard = seen(x, Scaling(own.mean, own.std, found), encoder).astype(np.float64)
    assert np.array_equal(standard, (plain - found.mean) / found.std)
    assert abs(plain.mean(0)).max() > 0.25 and abs(standard.mean(0)).max() < 1e-4
    varies = plain.std(0) > LEAST_SPREAD
    assert varies.mean() > 0.8 and np.allclose(standard[:, varies].std(0), 1, atol=1e-4)
    assert found.bits != own.bits and (standard.std(0)[~varies] <= 1).all()


def test_the_order_of_samples_changes_no_bit_of_their_sums() -> None:
    """Features are whole levels over 128, whose sums float64 holds exactly."""
    x, encoder = windows(), KernelsEncoder(30, 3, windows().shape[1:])
    encoded = encoder.encode(apply(scaling(moments(x)), x))
    one, other = moments(encoded), moments(encoded[::-1])
    assert np.array_equal(one.sum, other.sum) and np.array_equal(one.sumsq, other.sumsq)


def test_what_hardly_varied_is_not_blown_up() -> None:
    levels = np.full((100, 3), -128)
    levels[0, 1] = -127
    levels[::2, 2] = 127
    features = (levels / 128).astype(np.float32)
    found = feature_scaling(moments(features))
    # A constant one is centred alone.
    assert found.std[:2].tolist() == [1, LEAST_SPREAD] and found.std[2] > 0.9
    farthest = apply(found, np.array([[127 / 128] * 3], np.float32))
    assert np.isfinite(farthest).all() and farthest.max() < 2 / LEAST_SPREAD


def test_samples_that_do_not_vary_have_features_too() -> None:
    x = np.full((4, 2, 20), 7, np.float32)
    found = feature_scaling(feature_moments(KernelsEncoder(5, 0, (2, 20)), x))
    assert (found.std == 1).all() and np.isfinite(found.mean).all()


def test_closed_form_and_runs_without_standardisation_send_none() -> None:
    encoder = KernelsEncoder(5, 0, (2, 20))
    for standardise in ("federation", "federation-median"):
        assert shared_features(encoder, True, standardise) == 25
        assert shared_features(encoder, False, standardise) == 0
        assert shared_features(None, True, standardise) == 0
    for standardise in ("client", "none"):
        assert shared_features(encoder, True, standardise) == 0


def test_bits_tell_features_apart() -> None:
    of = Moments(2, np.array([1.0]), np.array([1.0]))
    plain = scaling(of)
    with_features = Scaling(plain.mean, plain.std, plain)
    assert len(with_features.bits) == 2 * len(plain.bits)
