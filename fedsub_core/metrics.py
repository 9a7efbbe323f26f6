"""Metrics of one client, as plain numbers, and rows of a run's metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fedsub_core.metric_names import CHOSEN, CONFUSION, CONFUSION_PEOPLE, GAIN, SCORES
from fedsub_core.paired import Gain

#: Classes of the largest confusion matrix that is counted: a larger one cannot be read.
MOST_CONFUSED = 50

#: A client's test samples by true and predicted class; a pair that is not there has none.
Confusion = Mapping[tuple[int, int], int]


class MetricRow(NamedTuple):
    """One measured number; `label` is the class it is about, None when it is not per class."""

    round: int
    client: str
    label: int | None
    metric: str
    value: float


@dataclass(frozen=True)
class ClientMetrics:
    """How one client's model does on that client's test samples.

    Parameters
    ----------
    macro_f1, weighted_f1, accuracy : in [0, 1]; nan for a client with no sample.
    loss : mean cross-entropy over the samples, nats.
    f1 : F1 of each class that is in the test set or predicted, by label.
    gain : over the model that the person has without others, of methods that train one beside.
    class_means : by name, of those of :data:`CLASS_MEANS` whose classes there are.
    best_round : of the model, the client's best so far; None where the newest is tested.
    validation_macro_f1 : by which it is the best; None for a client without a validation part.
    confusion : test samples by true and predicted class; empty where they are not counted.
    own_heads : by the names of :data:`.metric_names.OWN_HEADS`; empty where the person has no
        such head.
    """

    macro_f1: float
    weighted_f1: float
    accuracy: float
    loss: float
    f1: dict[int, float]
    examples: int
    gain: Gain | None = None
    class_means: Mapping[str, float] = field(default_factory=dict)
    best_round: int | None = None
    validation_macro_f1: float | None = None
    confusion: Confusion = field(default_factory=dict)
    own_heads: Mapping[str, float] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers about the whole test set, by the names of their metrics."""
        chosen = {name: getattr(self, name) for name in CHOSEN}
        return {
            **{name: float(getattr(self, name)) for name in SCORES},
            **dict(zip(GAIN, self.gain or (), strict=False)),
            **self.own_heads,
            **{name: float(value) for name, value in chosen.items() if value is not None},
        }

    def rows(self, round: int, client: str) -> list[MetricRow]:
        """Return the metrics as rows; a class that has no F1 has no row."""
        numbers = list(self.numbers.items())
        for name, mean in self.class_means.items():
            numbers += [(name, mean), (f"macro_{name}", self.macro_f1)]
        rows = [MetricRow(round, client, None, name, value) for name, value in numbers]
        return rows + [MetricRow(round, client, c, "f1", f1) for c, f1 in self.f1.items()]


def confusion_rows(round: int, people: Iterable[Confusion]) -> list[MetricRow]:
    """Return the people's mean confusion matrix as rows of the whole federation.

    Of each person's samples of a class, the share that is predicted as each class; everybody who
    has the class counts alike, so that no device's counts hide the others'. Classes in nobody's
    test part have no row.
    """
    shares: dict[int, dict[int, list[float]]] = {}
    having: dict[int, int] = {}
    for counts in people:
        tested: dict[int, int] = {}
        for (true, _), count in counts.items():
            tested[true] = tested.get(true, 0) + count
        for true in tested:
            having[true] = having.get(true, 0) + 1
        for (true, predicted), count in counts.items():
            own = shares.setdefault(true, {}).setdefault(predicted, [])
            own.append(count / tested[true])
    rows = [MetricRow(round, "", true, CONFUSION_PEOPLE, n) for true, n in having.items()]
    return rows + [
        # fsum: whoever answered first must not decide the last bit.
        MetricRow(round, "", true, f"{CONFUSION}{predicted}", math.fsum(each) / having[true])
        for true, row in shares.items()
        for predicted, each in row.items()
    ]
