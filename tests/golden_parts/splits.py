"""Splits of people's samples, for devices in other languages.

The file has people, with the card's words on their samples, and which samples are for training and
which for testing. Samples are single numbers, some of them twice.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsub_client.split_client import split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.federation import Card, ClientData
from fedsub_core.errors import DataError

CLASSES = ("sit", "walk", "run", "climb")
SAMPLES = 40
#: What the card says, and of the person's samples: `t` seconds apart, `moments` that several share,
#: samples in a `group`, and every so manyth that `repeats` the first.
CASES: Mapping[str, Mapping[str, Any]] = {
    "at random": {},
    "at random, repeated": {"repeats": 7},
    "at random, a few": {"samples": 3},
    "nothing left": {"samples": 1},
    "at random by moments": {"t": 30.0, "moments": 2, "card": {"window_s": 10.0}},
    "at random by moments, repeated": {
        "t": 30.0, "moments": 3, "repeats": 5, "card": {"window_s": 10.0}
    },
    "wanted at random": {"split": "stratified", "t": 5.0, "card": {"window_s": 10.0}},
    "in time": {"t": 5.0, "card": {"window_s": 10.0}},
    "in time, repeated": {"t": 5.0, "repeats": 7, "card": {"window_s": 10.0}},
    "in time, of several devices": {"t": 5.0, "moments": 2, "card": {"window_s": 10.0}},
    "in time without a length": {"t": 5.0},
    "in milliseconds": {"t": 5000.0, "card": {"window_s": 2.0, "overlap": 0.5}},
    "in the file's order": {"card": {"time_ordered": True, "overlap": 0.5}},
    "in each class": {"card": {"overlap": 0.9}},
    "with an unknown overlap": {"card": {"overlap": None}},
    "wanted in time": {"split": "blocked", "repeats": 6},
    "of groups": {"group": 10, "card": {"groups": "day"}},
    "of groups in time": {
        "group": 8, "t": 5.0, "repeats": 9, "card": {"window_s": 10.0, "groups": "session"}
    },
    "of groups with classes of their own": {"group": 5, "sorted": True},
    "of one group": {"group": 99, "t": 5.0, "card": {"window_s": 10.0, "groups": "day"}},
    "of people kept out": {"split": "unseen", "t": 5.0, "card": {"window_s": 10.0}},
}  # fmt: skip


def person(case: Mapping[str, Any]) -> ClientData:
    """Return a case's person, whose samples are numbers from 0 on."""
    n = case.get("samples", SAMPLES)
    places = np.arange(n)
    x = np.where(places % case.get("repeats", n + 1) == 0, 0, places).astype(np.float32)
    y = places * places % 7 % len(CLASSES)
    t = None if "t" not in case else places // case.get("moments", 1) * case["t"]
    group = None if "group" not in case else places // case["group"]
    y = np.sort(y) if case.get("sorted") else y
    return ClientData("p1", x[:, None], y, t, group=group)


def recorded(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case's samples and both parts; no parts where one would be empty."""
    card = Card("golden", "a test", CLASSES, ("a",), **case.get("card", {}))
    data, settings = person(case), SplitSettings(split=case.get("split", "auto"), seed=7)
    keys = ("overlap", "time_ordered", "window_s", "groups")
    said = {key: getattr(card, key) for key in keys}
    arrays = {"x": data.x[:, 0], "y": data.y, "t": data.t, "group": data.group}
    listed = {name: None if one is None else one.tolist() for name, one in arrays.items()}
    found = {"split": settings.split, "seed": settings.seed, "card": said, **listed}
    try:
        parts = split_client(data, card, settings)
    except DataError:
        return found
    assert parts.note is not None
    return found | {
        "train": parts.train.tolist(), "test": parts.test.tolist(), "words": parts.note.split,
        "repeated": parts.note.repeated,
    }  # fmt: skip
