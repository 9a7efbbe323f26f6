"""Sensors: which channels of a window are axes of one thing that was measured, such as x, y, z."""

from __future__ import annotations

from typing import Any, TypeAlias

#: Of each sensor its channels.
Sensors: TypeAlias = "tuple[tuple[int, ...], ...]"
#: Channels of a sensor at most: three axes, or the four numbers of a quaternion.
AXES = 4
#: Name of the fact of a shape: of each channel the number of its sensor, -1: of none.
SENSOR_OF = "sensor_of"


class Windows(tuple[int, ...]):
    """Shape ``(channels, time)`` of windows some of whose channels are axes of one sensor.

    Parameters
    ----------
    sensors : of each sensor its channels, ascending; as :func:`check_sensors` has them.
    """

    sensors: Sensors

    def __new__(cls, shape: tuple[int, ...], sensors: Sensors) -> Windows:
        """Return the shape with its sensors."""
        made = super().__new__(cls, shape)
        made.sensors = sensors
        return made

    def __getnewargs__(self) -> tuple[tuple[int, ...], Sensors]:
        return tuple(self), self.sensors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Windows) and self.__getnewargs__() == other.__getnewargs__()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("windows", self.__getnewargs__()))

    def __repr__(self) -> str:
        return f"{tuple(self)} of sensors {[list(axes) for axes in self.sensors]}"


def sensors_of(shape: tuple[int, ...]) -> Sensors:
    """Return the channels of each sensor; () where nothing is said of sensors."""
    return shape.sensors if isinstance(shape, Windows) else ()


def check_sensors(value: object, channels: int) -> Sensors:
    """Return sensors, in the order given and each with its channels ascending.

    Raises ValueError if they are no lists of channels below `channels`, or a channel is named
    twice.
    """
    expected = (
        f"expected a list for each sensor of its 2 to {AXES} channels, whole numbers below "
        f"{channels}, none of them twice"
    )
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(f"got {value!r}, {expected}")
    named: list[int] = []
    for axes in value:
        if not isinstance(axes, (list, tuple)) or not 2 <= len(axes) <= AXES:
            raise ValueError(f"got sensor {axes!r}, {expected}")
        for channel in axes:
            if type(channel) is not int or not 0 <= channel < channels or channel in named:
                raise ValueError(f"got channel {channel!r} in sensor {axes!r}, {expected}")
            named.append(channel)
    return tuple(tuple(sorted(axes)) for axes in value)


def facts_of_sensors(shape: Windows) -> dict[str, Any]:
    """Return the number of each channel's sensor, -1 for none, as plain values."""
    numbers = {channel: i for i, axes in enumerate(shape.sensors) for channel in axes}
    return {SENSOR_OF: [numbers.get(channel, -1) for channel in range(shape[0])]}


def sensors_in(value: object, shape: tuple[int, ...]) -> Sensors:
    """Return the sensors of :func:`facts_of_sensors`.

    Raises ValueError if they are none of windows of such a shape.
    """
    if not isinstance(value, list) or len(shape) != 2 or len(value) != shape[0]:
        raise ValueError(
            f"got {SENSOR_OF} {value!r:.200} for samples {shape}, expected windows (channels, "
            "time) and one whole number a channel"
        )
    count = max((n for n in value if type(n) is int), default=-1) + 1
    found = [[c for c, n in enumerate(value) if n == i] for i in range(min(count, len(value)))]
    if any(type(n) is not int or not -1 <= n < len(found) for n in value):
        raise ValueError(f"got {SENSOR_OF} {value!r:.200}, expected whole numbers from -1")
    return check_sensors(found, shape[0])
