"""Sensors and their columns, by the columns' names: accelerometers, gyroscopes, others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from fedsub_core.data.sensors import Sensors


class Kind(Enum):
    """Kinds of sensors, as their columns' names say; UNKNOWN: they say nothing."""

    ACCELERATION = "acceleration"
    ROTATION = "rotation"
    OTHER = "another quantity"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Vector:
    """Columns that are the axes of one vector, or one column alone.

    Parameters
    ----------
    statistic : whether they are a spread or an extreme, and no values or means.
    """

    columns: tuple[int, ...]
    statistic: bool = False


@dataclass(frozen=True)
class Sensor:
    """Vectors of one sensor, whose numbers have one unit."""

    kind: Kind
    vectors: tuple[Vector, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """Indices of all its columns."""
        return tuple(itertools.chain.from_iterable(vector.columns for vector in self.vectors))


#: ``*`` stands for the letter of an axis: ``a*`` are ax, ay and az.
_KINDS = (
    (Kind.OTHER, r"accu|quat"),
    (Kind.ACCELERATION, r"acc|grav|(?<![a-z])(l|lin)?a\*"),
    (Kind.ROTATION, r"gyr|rot|angul|omega|(?<![a-z])w\*|angle|roll|pitch|yaw|azimuth|euler"),
    (Kind.OTHER, r"mag|mmc|(?<![a-z])m\*|ecg|emg|bvp|ppg|eda|gsr|hr|temp|press|baro|resp|gps|pos"),
)
_G = re.compile(r"(?<![a-z])g\*")
#: Numbers that another unit does not multiply by its factor, such as squares.
_NO_SIZE = r"energy|var|power|skew|kurt|corr|entropy|freq|count|cross|slope|enmo|auc"
#: Words by which columns of one sensor differ: of values and means, and of other statistics.
_MEANS = {"mean", "avg", "median", "roll", "pitch", "yaw", "mag", "norm"}
_STATISTICS = {"std", "sd", "min", "max", "rms", "iqr", "mad", "abs", "sma", "range", "amp"}
_AXES = "xyz"
#: More numbered columns than of so many vectors are features, and no axes.
_MOST_NUMBERED = 8


def sensors(features: Sequence[str]) -> tuple[Sensor, ...]:
    """Return the sensors that columns belong to, by their names; a column is in one at most.

    ``acc_x``, ``acc_y`` and ``acc_z`` are one vector; ``acc_mean`` and ``acc_std`` one sensor.
    Numbered columns, such as ``dimension1`` to ``dimension6``, are three by three.
    """
    stems: dict[str, list[int]] = {}
    for i, stem in enumerate(_stems(features)):
        stems.setdefault(stem, []).append(i)
    by: dict[tuple[Kind, str], list[Vector]] = {}
    for stem, columns in stems.items():
        kind, words = _kind(stem, stems), re.findall(r"[a-z]+|\*|#|\d+", stem)
        if re.search(_NO_SIZE, stem):
            continue
        sensor = " ".join(word for word in words if word not in _MEANS | _STATISTICS | {"*"})
        if stem.endswith("#"):
            threes = [tuple(columns[i : i + 3]) for i in range(0, len(columns), 3)]
            if len(threes[-1]) == 3 and len(threes) <= _MOST_NUMBERED:
                by |= {(kind, f"{sensor}{i}"): [Vector(axes)] for i, axes in enumerate(threes)}
            continue
        own = [tuple(columns)] if "*" in stem else [(i,) for i in columns]
        statistic = not _STATISTICS.isdisjoint(words)
        by.setdefault((kind, sensor), []).extend(Vector(axes, statistic) for axes in own)
    return tuple(Sensor(kind, tuple(vectors)) for (kind, _), vectors in by.items())


def axes(features: Sequence[str]) -> Sensors | None:
    """Return the channels of each sensor of three axes, by the channels' names; None: no sensor."""
    found = sorted(
        vector.columns
        for sensor in sensors(features)
        for vector in sensor.vectors
        if len(vector.columns) == len(_AXES) and not vector.statistic
    )
    return tuple(found) or None


def inconvertible(features: Sequence[str], statistics: bool) -> list[str]:
    """Return columns of accelerometers and gyroscopes that no factor of a unit converts.

    `statistics`: whether least and largest values and the like count: another sign swaps them.
    """
    stems = _stems(features)
    return [
        name
        for name, stem in zip(features, stems, strict=True)
        if _kind(stem, stems) in (Kind.ACCELERATION, Kind.ROTATION)
        and (
            re.search(_NO_SIZE, stem)
            or (statistics and not _STATISTICS.isdisjoint(re.findall("[a-z]+", stem)))
        )
    ]


def _kind(stem: str, stems: Collection[str]) -> Kind:
    """Return the kind of a stem's columns; beside ``ax``, ``gx`` is a gyroscope's."""
    if _G.search(stem) and _G.sub("a*", stem) in stems:
        return Kind.ROTATION
    return next((kind for kind, words in _KINDS if re.search(words, stem)), Kind.UNKNOWN)


def _stems(features: Sequence[str]) -> list[str]:
    """Return each name in small letters with ``*`` for its axis, or ``#`` for its number."""
    names = [re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower() for name in features]
    known = set(names)
    stems = []
    for name in names:
        stem = name
        for at in reversed(range(len(name))):
            others = {name[:at] + axis + name[at + 1 :] for axis in _AXES} - {name}
            if name[at] in _AXES and known & others:
                stem = name[:at] + "*" + name[at + 1 :]
                break
        stems.append(stem)
    counted = [re.sub(r"\d+$", "#", stem) for stem in stems]
    return [
        count if counted.count(count) > 1 and "*" not in stem else stem
        for stem, count in zip(stems, counted, strict=True)
    ]
