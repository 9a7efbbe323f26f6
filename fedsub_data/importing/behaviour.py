"""The kind of a sensor that no name tells: gravity at rest, or turns that add up to 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from fedsub_data.importing.sensors import Kind, Sensor, Vector
from fedsub_data.importing.sizes import Sizes

#: Gravity, m/s^2.
G = 9.80665
#: Of a sensor that no name names, lengths at rest vary by less, and the mean vector is a larger
#: share of the mean length; where it turns about, the mean vector is a smaller one.
_SPREAD, _DIRECTED, _ABOUT = 0.25, 0.5, 0.4
#: How near to 1 g people's lengths are, for half of them; and how many are steady.
_NEAR, _HALF, _MOST = 1.15, 0.5, 0.8


def by_behaviour(sensors: Sequence[Sensor], sizes: Sizes) -> list[Sensor]:
    """Return the sensors, with the kind that numbers show where names show none."""
    known = [
        dataclasses.replace(one, kind=Kind.ACCELERATION)
        if one.kind == Kind.UNKNOWN and _shows_gravity(one, sizes)
        else one
        for one in sensors
    ]
    if not any(one.kind == Kind.ACCELERATION for one in known):
        return known
    return [
        dataclasses.replace(one, kind=Kind.ROTATION)
        if one.kind == Kind.UNKNOWN and _turns(one, sizes)
        else one
        for one in known
    ]


def _threes(sensor: Sensor, sizes: Sizes) -> list[Vector]:
    first = next(iter(sizes.rest.values()))
    return [one for one in sensor.vectors if one in first]


def _shows_gravity(sensor: Sensor, sizes: Sizes) -> bool:
    """Return whether lengths at rest are steady, and 1 g or 9.8 m/s^2 for half of the people."""
    for vector in _threes(sensor, sizes):
        rests = [by[vector] for by in sizes.rest.values()]
        lengths = np.array([one.length for one in rests])
        off = np.minimum(abs(np.log(lengths)), abs(np.log(lengths / G)))
        steady = np.array([one.spread < _SPREAD and one.steady > _DIRECTED for one in rests])
        if np.mean((off < np.log(_NEAR)) & steady) >= _HALF and steady.mean() >= _MOST:
            return True
    return False


def _turns(sensor: Sensor, sizes: Sizes) -> bool:
    """Return whether the mean vector is nearly 0 beside the mean length, in most classes."""
    shares = [
        np.linalg.norm(by[vector], axis=1)
        for vector in _threes(sensor, sizes)
        for by in sizes.mean.values()
    ]
    return bool(shares) and float(np.nanmedian(np.concatenate(shares))) < _ABOUT


def at_rest(sensor: Sensor, sizes: Sizes) -> list[Vector]:
    """Return the vectors of an accelerometer that are gravity at rest, not movement alone."""
    if sensor.kind != Kind.ACCELERATION:
        return []
    return [
        vector
        for vector in _threes(sensor, sizes)
        if np.mean([by[vector].still for by in sizes.rest.values()]) >= _HALF
    ]
