"""Windows' features come back from one person's sums; of opened sums no server gets these."""

import runpy
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub.testing.refusals import refused
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.summing import RANGE, of_statistics, statistics_in
from fedsub_core.closed_form.sums import UNIT, statistics
from fedsub_core.errors import MessageRefused
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels

from ..fedsub_core.secure.lying_servers import VICTIM, Federation

ATTACKERS = Path(__file__).resolve().parents[2] / "benchmarks" / "sums_attackers.py"
PEOPLE, WINDOWS, FEATURES, CLASSES = 8, 3, 24, 2
LEVELS = Levels.of_people(PEOPLE, WINDOWS, RANGE)


def features(i: int) -> NDArray[np.float32]:
    """Return the features of a person's windows [n, D], whole numbers of units."""
    stream = np.random.default_rng(i)
    return (stream.integers(-20, 21, (WINDOWS, FEATURES)) / UNIT).astype(np.float32)


def vector(i: int) -> Words:
    sums = statistics(features(i), np.arange(WINDOWS) % CLASSES, CLASSES)
    return of_statistics(Rounded.of(sums), WINDOWS, LEVELS)


def read(words: Words) -> set[tuple[float, ...]] | None:
    """Return the windows that the attack reads from a vector; None: it reads none."""
    found = statistics_in(LEVELS.total(words, 1), FEATURES, CLASSES, 1)
    attack = runpy.run_path(str(ATTACKERS))["features_of_samples"]
    back = attack(Rounded.of(found), WINDOWS)
    return None if back is None else set(map(tuple, back[:, 1:]))


def test_a_difference_would_tell_windows_and_is_not_opened() -> None:
    people = Federation(signed=True, once="statistics")
    people.first.x = {f"p{i:03}": vector(i) for i in range(PEOPLE)}
    every = people.opened(range(PEOPLE))
    others = sum((vector(i) for i in range(1, PEOPLE)), np.zeros_like(every))
    true = set(map(tuple, np.rint(features(0) * UNIT).astype(float)))
    assert read(every - others) == true
    with refused(MessageRefused, what="statistics again", got=f"[{VICTIM!r}]", expected="'run'"):
        people.read(every - people.opened(range(1, PEOPLE), 3, "another"))
