"""A client's metrics as a record of a message."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from fedsub_core.errors import MessageRefused, cut
from fedsub_core.metric_names import (
    BEST_ROUND,
    CHOSEN,
    CLASS_MEANS,
    GAIN,
    OWN_HEADS,
    SCORES,
    VALIDATION,
)
from fedsub_core.metrics import MOST_CONFUSED, ClientMetrics
from fedsub_core.paired import Gain
from fedsub_core.target_errors import TargetErrors

#: Key of test samples by true and predicted class, as a list of numbers.
CONFUSION = "confusion"


def metric_values(metrics: ClientMetrics | TargetErrors) -> dict[str, float | list[int]]:
    """Return a client's metrics as plain numbers; a class's F1 is ``f1.<label>``.

    What was counted by class is one list: true label, predicted label, samples, and so on.
    """
    values: dict[str, float | list[int]] = {**metrics.numbers, **metrics.class_means}
    if metrics.confusion:
        each = sorted(metrics.confusion.items())
        values[CONFUSION] = [n for (true, given), count in each for n in (true, given, count)]
    return values | {f"f1.{label}": f1 for label, f1 in metrics.f1.items()}


def read_metrics(record: Mapping[str, Any], client: str, round: int, classes: int) -> ClientMetrics:
    """Inverse of :func:`metric_values`, for labels below `classes`.

    Raises MessageRefused if a number is missing or outside its range.
    """

    def numbers(names: Iterable[str]) -> dict[str, float]:
        return {name: float(cast(float, record[name])) for name in names}

    try:
        macro, weighted, accuracy, loss, examples = numbers(SCORES).values()
        each = numbers(key for key in record if key.startswith("f1."))
        f1 = {int(key.removeprefix("f1.")): value for key, value in each.items()}
        gain = Gain(*numbers(GAIN).values()) if GAIN[0] in record else None
        # An older device sends none.
        own_heads = numbers(OWN_HEADS if OWN_HEADS[0] in record else ())
        means = numbers(name for name in CLASS_MEANS if name in record)
        chosen = numbers(name for name in CHOSEN if name in record)
    except (KeyError, TypeError, ValueError) as error:
        raise MessageRefused(client, round, "metrics", repr(error), "all of them") from error
    best, validation = chosen.get(BEST_ROUND), chosen.get(VALIDATION)
    *own_shares, own_loss = own_heads.values() or (0.0,)
    shares = macro, weighted, accuracy, *f1.values(), *means.values(), *own_shares, validation or 0
    in_range = (
        1 <= examples < 2**53
        and all(0 <= share <= 1 for share in shares)
        and 0 <= own_loss < math.inf
        and all(0 <= label < classes for label in f1)
        and all(-1 <= difference <= 1 for difference in gain or ())
        and (best is None or (1 <= best <= round and best.is_integer()))
    )
    # A loss that is not finite is kept: a client that diverged must show in the results.
    if not in_range:
        expected = (
            f"1 or more examples, shares in [0, 1], labels below {classes}, gains in [-1, 1], a "
            f"best round from 1 to {round}, a finite loss of own heads"
        )
        raise MessageRefused(client, round, "metrics", str(dict(record)), expected)
    scores = macro, weighted, accuracy, loss, f1, int(examples), gain, means
    confusion = _read_confusion(record, client, round, classes, int(examples))
    best_round = None if best is None else int(best)
    return ClientMetrics(*scores, best_round, validation, confusion, own_heads)


def _read_confusion(
    record: Mapping[str, Any], client: str, round: int, classes: int, examples: int
) -> dict[tuple[int, int], int]:
    """Return a client's samples by true and predicted class; empty where it has not counted."""
    if CONFUSION not in record:
        return {}
    listed, labels = record[CONFUSION], range(min(classes, MOST_CONFUSED))
    found: dict[tuple[int, int], int] = {}
    if isinstance(listed, list) and len(listed) <= 3 * len(labels) ** 2 and len(listed) % 3 == 0:
        each = iter(listed)
        for true, predicted, count in zip(each, each, each, strict=True):
            if true in labels and predicted in labels and type(count) is int and count > 0:
                found[true, predicted] = count
    if not found or 3 * len(found) != len(listed) or sum(found.values()) != examples:
        expected = (
            f"true label, predicted label and samples of each pair once, labels below {classes}, "
            f"{examples} samples in all"
        )
        raise MessageRefused(client, round, CONFUSION, cut(listed), expected)
    return found
