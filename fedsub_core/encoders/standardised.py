"""What a model sees of samples: standardised, encoded and, where it is trained, standardised again.

Features of an encoder are neither centred nor of like size. Gradient descent suffers from both; a
head in closed form does not, and wants whole levels.

Their moments travel in the handshake, when no device knows the federation's standardisation of
samples yet: each takes them of samples that it standardised by its own moments. So they lack what
people differ by in scale, but nobody is asked twice, and all devices divide by the same numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.samples import Samples
from fedsub_core.data.standardise import POOLS, Moments, Scaling, apply, moments, scaling
from fedsub_core.encoders.encoder import Encoder, quantised

#: A feature's spread counts as so much at least, of a full scale of 1. What hardly varies in
#: training would be blown up where it does later: a standardised feature is 32 at most.
LEAST_SPREAD = 2.0**-4


def shared_features(encoder: Encoder | None, trains: bool, standardise: str) -> int:
    """Return of how many features clients send moments: all of them, or 0 where none are used.

    Parameters
    ----------
    encoder : of the run, None without one.
    trains : whether the method trains its model.
    standardise : the run's option.
    """
    return encoder.features if encoder and trains and standardise in POOLS else 0


def feature_moments(encoder: Encoder, x: Samples) -> Moments:
    """Return the moments of features of samples in their units, standardised by their own."""
    own = scaling(moments(x))
    return moments(of_person(encoder, x, own).encode(apply(own, x)))


def feature_scaling(m: Moments) -> Scaling:
    """Return mean and standard deviation of features; it is 1 of those that do not vary."""
    found = scaling(m)
    return replace(found, std=np.maximum(found.std, np.float32(LEAST_SPREAD)))


def of_person(encoder: Encoder, x: Samples, scale: Scaling | None) -> Encoder:
    """Return the encoder of a person with training samples `x` in their units."""
    return encoder.of_person(quantised(_standardised(x, scale))) if encoder.personal else encoder


def seen(x: Samples, scale: Scaling | None, encoder: Encoder | None) -> NDArray[np.float32]:
    """Return a model's inputs of samples in their units."""
    x = _standardised(x, scale)
    if encoder is None:
        return x
    features = encoder.encode(x)
    if scale is None or scale.features is None:
        return features
    return apply(scale.features, features)


def _standardised(x: Samples, scale: Scaling | None) -> NDArray[np.float32]:
    return x.astype(np.float32, copy=False) if scale is None else apply(scale, x)
