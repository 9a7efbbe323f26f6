"""Contenders that take turns, so that a noisy machine is noisy for all: medians of their times."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeVar

Name = TypeVar("Name")
#: Seconds: of the processor, if nothing else is said; by the clock.
Clock = Callable[[], float]


def seconds_of(work: Callable[[], object], clock: Clock = time.process_time) -> float:
    """Return the seconds that some work takes."""
    begun = clock()
    work()
    return clock() - begun


def medians(
    contenders: Mapping[Name, Callable[[], object]], turns: int, clock: Clock = time.process_time
) -> dict[Name, float]:
    """Return each contender's median seconds over `turns`; one more turn before warms up."""
    took: dict[Name, list[float]] = {name: [] for name in contenders}
    for _ in range(turns + 1):
        for name, work in contenders.items():
            took[name].append(seconds_of(work, clock))
    return {name: median(seconds[1:]) for name, seconds in took.items()}
