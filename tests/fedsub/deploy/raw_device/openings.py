"""Introductions that no server may take: each is one device's first and only answer."""

from collections.abc import Callable
from math import nan
from typing import Any

from .device import FEATURES, Device, Question
from .objects import config_record, content

HUGE = "x" * 5_000_000
#: What is wrong with it, by device.
CHANGES: dict[str, dict[str, Any]] = {
    "count-text": {"count": "5"},
    "count-list": {"count": [12]},
    "count-bytes": {"count": b"12"},
    "count-negative": {"count": -12},
    "count-nan": {"count": nan},
    "count-huge": {"count": 2**62, "examples": 2**62},
    "sums-large": {"sum": [1e15] * FEATURES},
    "sums-huge": {"sum": [1e308] * FEATURES, "sumsq": [1e308] * FEATURES},
    "squares-small": {"sumsq": [0.0] * FEATURES},
    "shape-float": {"shape": [float(FEATURES)]},
    "long-id": {"client": "y" * 66},
    "honest-id": {"client": "p1"},
    # Of a person who is away, or has not come yet.
    "absent-id": {"client": "p9"},
    "huge-text": {"version": HUGE},
    "huge-class": {"classes": [HUGE, "walk", "run"]},
}


def changed(name: str) -> Callable[[Device, Question], str]:
    """Return the manners of a device that introduces itself with one thing wrong."""

    def answer(device: Device, question: Question) -> str:
        return device.send(question, device.introduction(question, **CHANGES[name]))

    return answer


def no_handshake(device: Device, question: Question) -> str:
    """Answer with a record that nobody asked for."""
    return device.send(question, content({"something": config_record({"else": 1})}))


OPENINGS = {name: changed(name) for name in CHANGES} | {"no-handshake": no_handshake}
