"""People whose numbers of one sensor are in another unit than most people's, or of another sign."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_data.importing.behaviour import G, at_rest, by_behaviour, opposite
from fedsub_data.importing.clocks import THOUSANDS
from fedsub_data.importing.sensors import Kind, Sensor
from fedsub_data.importing.sizes import Sizes

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
DEGREES = 180 / np.pi
#: By how much a number grows in the other unit.
_GRAVITY, _ANGLES = {G: "g and m/s^2"}, {DEGREES: "radians and degrees"}
_FACTORS: dict[Kind, Mapping[float, str]] = {
    Kind.ACCELERATION: _GRAVITY | THOUSANDS,
    Kind.ROTATION: _ANGLES | THOUSANDS,
    Kind.OTHER: THOUSANDS,
    Kind.UNKNOWN: THOUSANDS,
}
#: Kinds whose factors are those of units: their people may be two, and half of them may differ.
_KNOWN = (Kind.ACCELERATION, Kind.ROTATION)
#: How far from a factor people may be: of a sensor that is known, they move more or less.
_NEAR = {Kind.ACCELERATION: 1.8, Kind.ROTATION: 2.2, Kind.OTHER: 1.4, Kind.UNKNOWN: 1.4}
#: At rest an acceleration is gravity: people whose lengths differ by more have another unit.
_AT_REST = 2.0
#: How near to the median most people must be, and how many are most.
_ALIKE, _MOST = 3.0, 0.8
#: Of a sensor that is not known fewer people show nothing.
_FEWEST = 3


@dataclass(frozen=True)
class Mix:
    """Columns in which some people's numbers have another unit, or sign, than most people's.

    Parameters
    ----------
    factors : by person who differs, how many times as large a number is as in most people's unit;
        -1 for another sign.
    others : most people; where both are as many, the first is of these.
    length, usual : mean length of the columns' vector of the first who differs, and of the others.
    """

    columns: tuple[int, ...]
    factors: Mapping[str, float]
    others: tuple[str, ...]
    length: float
    usual: float
    what: str

    @property
    def flipped(self) -> bool:
        """Whether it is signs that differ."""
        return -1.0 in self.factors.values()


def mixes(sensors: Sequence[Sensor], sizes: Sizes) -> list[Mix]:
    """Return the mixes of people's units or signs, sensor by sensor.

    Where names say nothing, a sensor that shows gravity at rest is an accelerometer, and one
    beside it whose mean is nearly 0 a gyroscope. What still is unknown is also held together.

    `sizes`: of the sensors' vectors, and of each column alone.
    """
    people = list(sizes.length)
    known = by_behaviour(sensors, sizes)
    taken = {i for vector in known if vector.kind in _KNOWN for i in vector.columns}
    single = [
        vector for vector in sizes.vectors if len(vector.columns) == 1 and not vector.statistic
    ]
    rest = tuple(vector for vector in single if taken.isdisjoint(vector.columns))
    mixed: list[Mix] = []
    for sensor in known:
        mixed += _mixes(_of_units(sensor, sizes, people, sensor in sensors), sensor, sizes)
    if rest and not mixed:
        together, every = Sensor(Kind.UNKNOWN, rest), _GRAVITY | _ANGLES | THOUSANDS
        mixed += _mixes(_by_class(together, sizes, people, every), together, sizes)
    for sensor in known:
        for vector in at_rest(sensor, sizes):
            turned = opposite(np.stack([sizes.mean[person][vector] for person in people]))
            others = np.setdiff1d(np.arange(len(people)), turned)
            flipped = [_Group(turned, others, -1.0, "signs")] if len(turned) else []
            mixed += _mixes(flipped, Sensor(sensor.kind, (vector,)), sizes)
    return mixed


@dataclass(frozen=True, eq=False)
class _Group:
    """A group of people, by their indices, who differ from the others by a factor."""

    people: Indices
    others: Indices
    factor: float
    what: str


def _mixes(groups: Sequence[_Group], sensor: Sensor, sizes: Sizes) -> list[Mix]:
    """Return one mix of the groups that differ in a sensor; [] without any."""
    if not groups:
        return []
    people, first = list(sizes.length), groups[0]
    at = sizes.vectors.index(sensor.vectors[0])
    lengths = [float(np.nanmean(sizes_by_vector[at])) for sizes_by_vector in sizes.length.values()]
    return [
        Mix(
            sensor.columns,
            {people[i]: group.factor for group in groups for i in group.people},
            tuple(people[i] for i in first.others),
            lengths[first.people[0]],
            float(np.nanmedian([lengths[i] for i in first.others])),
            first.what,
        )
    ]


def _of_units(sensor: Sensor, sizes: Sizes, people: Sequence[str], named: bool) -> list[_Group]:
    """Return the groups with another unit of a sensor; of any factor only if it is `named`."""
    factors = _FACTORS[sensor.kind]
    if gravity := at_rest(sensor, sizes):
        rests = [sizes.rest[person][gravity[0]] for person in people]
        levels = np.log([rest.length for rest in rests])
        still = np.array([rest.still for rest in rests])
        return _apart(levels, factors, _AT_REST, np.log(_AT_REST), still if named else None)
    return _by_class(sensor, sizes, people, factors)


def _by_class(
    sensor: Sensor, sizes: Sizes, people: Sequence[str], factors: Mapping[float, str]
) -> list[_Group]:
    """Return the groups that differ in all vectors, and in the classes shared with others."""
    at = [sizes.vectors.index(group) for group in sensor.vectors]
    logs = np.log([sizes.length[person][at] for person in people])  # [people, vectors, classes]
    seen: NDArray[np.bool_] = np.asarray(np.isfinite(logs).any(axis=1))
    shared = seen[:, seen.sum(axis=0) > 1].sum(axis=1)
    known = sensor.kind in _KNOWN
    if len(people) < _FEWEST and (not known or (shared < 2).any()):
        return []
    logs[shared < 1] = np.nan  # whoever runs while others sit shows no unit
    levels = np.stack([_levels(logs[:, i]) for i in range(len(at))], axis=1)
    gap = np.log(min(factors)) / 2
    groups = _apart(np.nanmedian(levels, axis=1), factors, _NEAR[sensor.kind], gap)
    return [group for group in groups if _holds(group, levels, logs) and (known or _few(group))]


def _few(group: _Group) -> bool:
    return len(group.people) < len(group.others)


def _levels(logs: Array) -> Array:
    """Return each person's level [people], a class's own taken off, of logs [people, classes]."""
    levels, of_class = np.zeros(len(logs)), np.zeros(logs.shape[1])
    there = np.isfinite(logs)
    filled = np.where(there, logs, 0.0)
    for _ in range(30):
        of_class = np.where(there, filled - levels[:, None], 0).sum(0) / np.maximum(there.sum(0), 1)
        levels = np.where(there, filled - of_class, 0).sum(1) / np.maximum(there.sum(1), 1)
    return np.where(there.any(axis=1), levels, np.nan)


def _apart(
    levels: Array,
    factors: Mapping[float, str],
    near: float,
    gap: float,
    still: NDArray[np.bool_] | None = None,
) -> list[_Group]:
    """Return the groups of people whose levels, logs, are a factor away from most people's.

    Groups are apart by a `gap`. Between people in whom gravity is seen, `still`, any factor counts.
    """
    order = np.argsort(levels)[: np.isfinite(levels).sum()]
    groups = np.split(order, np.flatnonzero(np.diff(levels[order]) > gap) + 1)
    if len(groups) < 2:
        return []
    most = max(groups, key=lambda group: (len(group), -group.min()))
    middle = float(np.median(levels[most]))
    differing, explained = [], len(most)
    for group in groups:
        away = float(np.median(levels[group])) - middle
        factor = next((f for f in factors if abs(abs(away) - np.log(f)) < np.log(near)), None)
        any_factor = still is not None and bool(still[group].all())
        if group is most or (factor is None and not any_factor):
            continue
        explained += len(group)
        exact = float(np.exp(away)) if factor is None else factor ** float(np.sign(away))
        what = "two units" if factor is None else factors[factor]
        differing.append(_Group(np.sort(group), np.sort(most), exact, what))
    alike = float(np.mean(abs(levels[most] - middle) < np.log(_ALIKE)))
    return differing if min(alike, explained / len(order)) >= _MOST else []


def _holds(group: _Group, levels: Array, logs: Array) -> bool:
    """Return whether a group differs clearly in every vector, and in nearly every class."""
    least, sign = abs(np.log(group.factor)) / 2, np.sign(np.log(group.factor))
    others = np.nanmedian(levels[group.others], axis=0)
    if not (sign * (np.nanmedian(levels[group.people], axis=0) - others) > least).all():
        return False
    away = sign * (logs[group.people] - np.nanmean(logs[group.others], axis=0))
    away = away[np.isfinite(away)]
    return bool(len(away)) and float(np.mean(away > least)) >= _MOST
