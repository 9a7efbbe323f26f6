"""Habits of people: when a device can be reached, drawn from a seed for a number of days.

Nobody measured these: they are plausible, and the same for all ways of running rounds that are
compared on them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.seeds import derive_seed

HOUR, DAY = 3600.0, 86400.0
#: Kinds of people, and which share of all they are.
BOX, NIGHTS, COMMUTER, SELDOM = KINDS = ("box", "nights", "commuter", "seldom")
SHARES = (0.1, 0.4, 0.3, 0.2)
#: Of everybody, in 30 days: who gets a new phone, leaves for good, or joins on a later day.
NEW_PHONE, LEAVES, JOINS = 0.05, 0.05, 0.10
#: Share of devices whose clock says 1970 for some days: no certificate is valid then, so they
#: cannot connect.
CLOCK_OF_1970 = 0.01
#: Chance that a battery is empty on some day, from some hour until the evening.
EMPTY_BATTERY = 0.1
#: Chance of somebody who is seldom there to stay away, or there, on the next day, too.
STAYS = 0.75


@dataclass(frozen=True, eq=False)
class Habits:
    """When one person's device can be reached, and how fast it is.

    Parameters
    ----------
    kind : one of KINDS.
    there : float64 [n, 2], seconds from the first midnight at which it comes, and goes; ascending.
    phones : when the person gets a new device, s.
    left : when its key is unregistered, s; infinite: never.
    work : seconds that a round takes on the device.
    rate : bytes per second, either way.
    """

    kind: str
    there: NDArray[np.float64]
    phones: tuple[float, ...]
    left: float
    work: float
    rate: float

    def next_there(self, moment: float) -> float:
        """Return the first moment, not before this one, at which the device is there; s."""
        place = int(np.searchsorted(self.there[:, 1], moment, side="right"))
        return max(moment, float(self.there[place, 0])) if place < len(self.there) else np.inf

    def share(self, begin: float, end: float) -> float:
        """Return the share of a stretch of time in which the device is there."""
        inside = np.clip(self.there, begin, end)
        return float((inside[:, 1] - inside[:, 0]).sum() / (end - begin))


def habits(person: str, days: int, seed: int) -> Habits:
    """Draw a person's habits; they depend on the seed, the person and the number of days alone."""
    draw = np.random.default_rng(derive_seed(seed, person, 0, "habits"))
    kind = KINDS[int(draw.choice(len(KINDS), p=SHARES))]
    joined, left = 0.0, np.inf
    if draw.random() < JOINS * days / 30:
        joined = float(draw.uniform(0, days * DAY))
    if draw.random() < LEAVES * days / 30:
        left = float(draw.uniform(joined, days * DAY))
    if draw.random() < CLOCK_OF_1970:
        joined = max(joined, float(draw.uniform(1, max(days / 2, 1.5))) * DAY)
    joined = min(joined, days * DAY)
    bought = float(draw.uniform(joined, days * DAY))
    phones = (bought,) if draw.random() < NEW_PHONE * days / 30 else ()
    away = _away(days, draw) if kind == SELDOM else np.zeros(days + 1, bool)
    stretches = [
        part for day in range(-1, days) for part in _day(kind, day, draw) if not away[day + 1]
    ]
    bounds = np.array(stretches, np.float64).reshape(-1, 2).clip(joined, min(left, days * DAY))
    there = merged(bounds[bounds[:, 0] < bounds[:, 1]])
    return Habits(
        kind,
        there,
        phones,
        left,
        work=float(draw.lognormal(np.log(30.0), 0.8)),
        rate=float(draw.lognormal(np.log(1e6), 0.8)),
    )


def _day(kind: str, day: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Return the stretches of one day in which a device is there, from its evening on."""
    midnight = day * DAY
    if kind == BOX:
        broken = midnight + draw.uniform(0, DAY)  # now and then the router is started again
        back = broken + draw.exponential(300.0)
        return [(midnight, min(broken, midnight + DAY)), (back, midnight + DAY)]
    evening = midnight + draw.normal(22.8, 0.9) * HOUR
    morning = midnight + DAY + draw.normal(7.0, 0.8) * HOUR
    stretches = [(evening, morning)]
    home = midnight + draw.normal(19.0, 1.0) * HOUR
    if draw.random() < 0.4:  # a while before, in the Wi-Fi at home
        stretches.append((home, home + draw.exponential(1.0) * HOUR))
    if kind == COMMUTER:
        begin, end = (midnight + draw.normal(*at) * HOUR for at in ((9.0, 0.4), (17.0, 0.6)))
        stretches += _train(begin - draw.uniform(0.4, 1.0) * HOUR, begin, draw)
        stretches += _train(end, end + draw.uniform(0.4, 1.0) * HOUR, draw)
        empty = draw.uniform(begin, end) if draw.random() < EMPTY_BATTERY else end
        stretches.append((begin, empty))
    return [(begin, end) for begin, end in stretches if begin < end]


def _train(begin: float, end: float, draw: np.random.Generator) -> Iterator[tuple[float, float]]:
    """Yield stretches between tunnels."""
    while begin < end:
        over = begin + draw.exponential(240.0)
        yield begin, min(over, end)
        begin = over + draw.exponential(120.0)


def _away(days: int, draw: np.random.Generator) -> NDArray[np.bool_]:
    """Draw on which days somebody is away who is away on half of them."""
    now, found = bool(draw.random() < 0.5), []
    for _ in range(days + 1):
        found.append(now)
        now = now == bool(draw.random() < STAYS)
    return np.array(found)


def merged(stretches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return stretches of time [n, 2], ascending, those that touch joined to one."""
    found: list[list[float]] = []
    for begin, end in _ascending(stretches):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return np.array(found, np.float64).reshape(-1, 2)


def _ascending(stretches: NDArray[np.float64]) -> Sequence[tuple[float, float]]:
    return sorted((float(begin), float(end)) for begin, end in stretches)
