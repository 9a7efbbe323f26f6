"""Levels of encoders, for devices in other languages.

The file has encoders, and the levels of samples whose steps everybody can compute:
:func:`steps_of`. The encoder of ``ranks`` is that of a person with the samples of another seed.
"""

import base64
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.sensors import Sensors, Windows
from fedsub_core.encoders.build import build_encoder
from fedsub_core.models.architecture import Shape

SAMPLES, PERSON = 4, 2
#: Text, shape, seed and sensors.
ENCODERS: tuple[tuple[str, Shape, int, Sensors], ...] = (
    ("relu:40", (7,), 3, ()),
    ("relu:0", (2,), 3, ()),
    ("ranks:30", (1,), 2**40, ()),
    ("ranks:60", (9,), 0, ()),
    ("kernels:20", (3, 50), 7, ()),
    ("kernels:9+statistics", (6, 128), 8, ((0, 1, 2), (3, 4, 5))),
    ("kernels:3+statistics", (1, 16), 9, ()),
    ("kernels:5+shape+spectrum", (12, 200), 9, ((1, 2, 3, 5),)),
    ("kernels:5+autocorrelation+correlations", (12, 33), 11, ()),
)


def steps_of(seed: int, shape: Shape, samples: int) -> NDArray[np.int16]:
    """Return the steps of samples, int16 ``[samples, *shape]``: loud ones and quiet ones.

    With r from the generator of Park and Miller, one number for each, sample s has r mod 4096 -
    2048, halved ``3 s`` times and rounded down.
    """
    found, state = np.empty(samples * prod(shape), np.int16), seed
    for i in range(len(found)):
        state = 48271 * state % (2**31 - 1)
        found[i] = (state % 4096 - 2048) >> (3 * (i // prod(shape)))
    return found.reshape(samples, *shape)


def recorded() -> list[dict[str, Any]]:
    """Return the levels of all encoders, int8 in base64."""
    found = []
    for text, shape, seed, sensors in ENCODERS:
        encoder = build_encoder(text, seed, Windows(shape, sensors) if sensors else shape)
        assert encoder is not None
        own = encoder.of_person(steps_of(2, shape, PERSON))
        levels = base64.b64encode(own.levels(steps_of(1, shape, SAMPLES)).tobytes()).decode()
        facts = {"encoder": text, "shape": shape, "seed": seed, "sensors": sensors}
        found.append({**facts, "levels": levels})
    return found
