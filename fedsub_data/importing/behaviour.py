"""What vectors show: the kind of a sensor that no name tells, and whose gravity is opposite."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub_data.importing.sensors import Kind, Sensor, Vector
from fedsub_data.importing.sizes import Sizes

Array = NDArray[np.float64]
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
        dataclasses.replace(sensor, kind=Kind.ACCELERATION)
        if sensor.kind == Kind.UNKNOWN and _shows_gravity(sensor, sizes)
        else sensor
        for sensor in sensors
    ]
    if not any(sensor.kind == Kind.ACCELERATION for sensor in known):
        return known
    return [
        dataclasses.replace(sensor, kind=Kind.ROTATION)
        if sensor.kind == Kind.UNKNOWN and _turns(sensor, sizes)
        else sensor
        for sensor in known
    ]


def _threes(sensor: Sensor, sizes: Sizes) -> list[Vector]:
    first = next(iter(sizes.rest.values()))
    return [vector for vector in sensor.vectors if vector in first]


def _shows_gravity(sensor: Sensor, sizes: Sizes) -> bool:
    """Return whether lengths at rest are steady, and 1 g or 9.8 m/s^2 for half of the people."""
    for vector in _threes(sensor, sizes):
        rests = [by[vector] for by in sizes.rest.values()]
        lengths = np.array([rest.length for rest in rests])
        off = np.minimum(abs(np.log(lengths)), abs(np.log(lengths / G)))
        steady = np.array([rest.spread < _SPREAD and rest.steady > _DIRECTED for rest in rests])
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


#: A mean vector of a smaller share of the mean length has no direction.
_POINTS = 0.7
#: How near to one line, as a cosine, people's directions must be, and for how many of them. Two or
#: three people may lie on one line by chance.
_LINE, _LINE_OF_FEW, _MOST_ON_LINE = 0.9, 0.95, 0.9
#: In how many of the classes that must be; and how many people are few.
_CLASSES, _CLASSES_OF_FEW, _FEW = 0.5, 0.75, 3


def opposite(means: Array) -> NDArray[np.int64]:
    """Return the indices of people whose vectors are opposite to most people's.

    Only classes count in which nearly everybody's vectors lie along one line: a phone that is
    carried as one likes has no sign that others agree with.

    `means`: [people, classes, 3], mean vectors as shares of their mean length; NaN where unknown.
    """
    signs, lines = np.zeros(means.shape[:2]), np.zeros(means.shape[1])
    for label in range(means.shape[1]):
        length = np.linalg.norm(means[:, label], axis=1)
        there = np.flatnonzero(length > _POINTS)  # NaN is not
        if len(there) < 2:
            lines[label] = np.nan
            continue
        unit = means[there, label] / length[there, None]
        _, axes = np.linalg.eigh(unit.T @ unit)
        along = unit @ axes[:, -1]
        line = abs(along) > (_LINE if len(means) > _FEW else _LINE_OF_FEW)
        lines[label] = line.mean() >= _MOST_ON_LINE
        signs[there, label] = np.sign(along) * (line if lines[label] else 1)
    least = _CLASSES if len(means) > _FEW else _CLASSES_OF_FEW
    if np.isnan(lines).all() or np.nanmean(lines) < least:
        return np.zeros(0, np.int64)
    total = _with_one_sign(signs[:, np.argsort(-np.nan_to_num(lines), kind="stable")])
    few = np.flatnonzero(total < 0)
    return few if len(few) * 2 <= len(means) else np.zeros(0, np.int64)


def _with_one_sign(signs: Array) -> Array:
    """Return each person's sign [people], 0 where classes differ; most people's is 1.

    Each class's sign is arbitrary at first: classes are turned to agree with those before them.
    """
    total = np.zeros(len(signs))
    mixed = np.zeros(len(signs), np.bool_)
    for column in signs.T:
        agreed = float((total * column).sum())
        own = column * (np.sign(agreed) if agreed else 1.0)
        mixed |= (total * own) < 0
        total = np.sign(total + own)
    total[mixed] = 0
    first = total[np.flatnonzero(total)[:1]].sum()
    turn = np.sign(total.sum()) or first
    turned: Array = total * turn
    return turned
