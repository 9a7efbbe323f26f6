"""Heads in closed form, for devices in other languages.

Each case has how the head of a person is solved, and the head, the squares, target
and losses of its equations, and the head alone.
Features and labels everybody can compute: :func:`person_of`.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import Shared
from fedsub_core.closed_form.lending import Holders
from fedsub_core.closed_form.personal import Mixing, personal_head
from fedsub_core.closed_form.possible import sound
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import Statistics, recency, statistics, total

from .encoders import steps_of

FEATURES, CLASSES = 6, 4


@dataclass(frozen=True)
class Case:
    """A person, and how its head is solved.

    Parameters
    ----------
    samples, labels : of the person, and of how many classes these are.
    others : people beside it in everybody's sums, of 30 samples each; 0: there are no such sums.
    group : which sums there are beside everybody's: "" none, "one" those of it and the first
        other, or "class", which are these for class 1 and everybody's for all others.
    pooled : whether there are everybody's equations.
    mixing : of :class:`Mixing`, what is not by default.
    """

    samples: int = 24
    labels: int = 4
    others: int = 4
    group: str = ""
    pooled: bool = False
    forgetting: float = 1.0
    holders: bool = False
    mixing: dict[str, Any] = field(default_factory=dict)


CASES = {
    "alone": Case(others=0),
    "first": Case(),
    "pooled": Case(pooled=True),
    "many samples": Case(samples=90, pooled=True),
    "few samples": Case(samples=3, labels=3, pooled=True),
    "one sample": Case(samples=1, labels=1, pooled=True),
    "no sample": Case(samples=0, mixing={"heads": "everybody"}),
    "lent": Case(labels=2, pooled=True, holders=True),
    "lent without odds": Case(labels=2),
    "not lent": Case(labels=2, mixing={"lends": False}),
    "own": Case(labels=3, pooled=True, mixing={"heads": "own"}),
    "everybody": Case(labels=3, mixing={"heads": "everybody"}),
    "noisy": Case(labels=3, mixing={"noisy": True, "lent_from": 40.0}),
    "single samples": Case(mixing={"stretches": 0, "prior": 20.0}),
    "group": Case(group="one"),
    "by class": Case(group="class", labels=3, pooled=True),
    "forgetting": Case(samples=40, forgetting=0.9),
}


def person_of(
    seed: int, samples: int, labels: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return features ``[n, FEATURES]`` and labels of a person.

    Sample i has the label i mod `labels`. Steps (:func:`steps_of`, of one sample of all numbers),
    over 16 and rounded down, are levels. Feature j of a sample of label j is 40 levels more, 127 at
    most. The last feature is 0.
    """
    y = np.arange(samples) % max(labels, 1)
    steps = steps_of(seed, (samples * FEATURES,), 1).reshape(samples, FEATURES)
    levels = (steps >> 4) + 40 * (y[:, None] == np.arange(FEATURES))
    levels[:, -1] = 0
    return (np.minimum(levels, 127) / 128).astype(np.float32), y


def recorded(case: Case) -> dict[str, Any]:
    """Return a case with what is solved, as plain values."""
    x, y = person_of(1, case.samples, case.labels)
    weights = None if case.forgetting == 1 else recency(y, case.forgetting)
    own = statistics(x, y, CLASSES, weights)
    each = [statistics(*person_of(i + 2, 30, CLASSES), CLASSES) for i in range(case.others)]
    sets = _sets(case, own, each)
    pooled = None
    if case.pooled:
        head = personal_head(*person_of(2, 30, CLASSES), CLASSES, sets)
        row = head.equations
        pooled = Equations(1.0, row.gram / 30, row.target / 30, row.losses / 30)
    of_class = np.array([5.0, 3.0, 5.0, 2.0])
    holders = Holders(of_class, 5.0) if case.holders else None
    how = Mixing(**case.mixing, holders=holders)
    found = personal_head(x, y, CLASSES, sets, pooled, how, weights=weights)
    sums = Rounded.of(own)
    said = found.equations
    return {
        **asdict(case),
        "weight": _plain(found.weight), "bias": _plain(found.bias),
        "squares": _plain(said.gram.diagonal()), "target": _plain(said.target),
        "losses": _plain(said.losses), "alone": [_plain(part) for part in found.alone],
        "rounded": [part.ravel().tolist() for part in (sums.gram, sums.cross, sums.shifts)],
        "sound": [sound(one.sums, int(one.sums.counts.sum()) // 10 + 1) for one in sets[:1]],
    }  # fmt: skip


def _plain(numbers: NDArray[np.float64]) -> list[float]:
    return [float(f"{number:.12g}") for number in numbers.ravel()]


def _sets(case: Case, own: Statistics, each: list[Statistics]) -> list[Any]:
    if not each:
        return []
    everybody, pair = (_shared(total([own, *some])) for some in (each, each[:1]))
    group = {"one": pair, "class": [everybody, pair, everybody, everybody]}
    return [everybody, *([group[case.group]] if case.group else [])]


def _shared(sums: Statistics) -> Shared:
    return Shared(Scale.of(sums), sums)
