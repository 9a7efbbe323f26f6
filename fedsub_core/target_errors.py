"""Errors of models that predict a target: how far off their predictions of test samples are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsub_core.data.target import predicted
from fedsub_core.errors import MessageRefused
from fedsub_core.metric_names import TARGET_CHOSEN, TARGET_SCORES
from fedsub_core.metrics import MetricRow
from fedsub_core.pytorch import Tensor, as_numpy


@dataclass(frozen=True)
class TargetErrors:
    """How far a client's model is off on that client's test samples.

    Parameters
    ----------
    mae, rmse : mean absolute and root mean squared error, in the target's unit.
    r2 : share of the variance that is predicted, at most 1; nan where all samples have one value,
        or predictions are not finite.
    loss : mean squared error of places in the target's range.
    best_round : of the model, the client's best so far; None where the newest is tested.
    validation_mae : by which it is the best; None for a client without a validation part.
    """

    mae: float
    rmse: float
    r2: float
    loss: float
    examples: int
    best_round: int | None = None
    validation_mae: float | None = None
    #: What metrics of classes have, and these do not.
    confusion: Mapping[tuple[int, int], int] = field(default_factory=dict)
    class_means: Mapping[str, float] = field(default_factory=dict)
    f1: Mapping[int, float] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers by the names of their metrics; r2 where samples differ."""
        each = {name: float(getattr(self, name)) for name in TARGET_SCORES}
        if math.isnan(self.r2) and math.isfinite(self.loss):
            del each["r2"]
        chosen = {name: getattr(self, name) for name in TARGET_CHOSEN}
        return each | {name: float(value) for name, value in chosen.items() if value is not None}

    def rows(self, round: int, client: str) -> list[MetricRow]:
        """Return the metrics as rows."""
        return [MetricRow(round, client, None, n, value) for n, value in self.numbers.items()]


def target_errors(
    outputs: Tensor, y: Tensor, counts: tuple[int, ...], half: float
) -> list[TargetErrors]:
    """Return the errors of every client of a stack.

    Parameters
    ----------
    outputs : float [clients, samples, 2]
    y : float [clients, samples], places in the target's range.
    counts : samples that each client really has.
    half : half the range, in the target's unit.
    """
    found = []
    said = as_numpy(predicted(outputs)).astype(np.float64)
    for theirs, true, n in zip(said, as_numpy(y).astype(np.float64), counts, strict=True):
        away, mean = theirs[:n] - true[:n], true[:n].mean() if n else math.nan
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            squares = float((away**2).sum())
            varies = float(((true[:n] - mean) ** 2).sum())
            loss = squares / n if n else math.nan
            # What float32 makes of equal values differs in its last digits at most.
            r2 = 1 - squares / varies if varies > 1e-12 * n else math.nan
            mae = half * float(np.abs(away).mean()) if n else math.nan
        found.append(TargetErrors(mae, half * math.sqrt(loss), r2, loss, n))
    return found


def read_target_errors(record: Mapping[str, Any], client: str, round: int) -> TargetErrors:
    """Return the errors in a message's record of metrics.

    Raises MessageRefused if a number is missing or outside its range, as of a device that tests
    classes.
    """
    try:
        mae, rmse, r2, loss, examples = (
            float(record.get(n, math.nan) if n == "r2" else record[n]) for n in TARGET_SCORES
        )
        best, validation = (float(record[n]) if n in record else None for n in TARGET_CHOSEN)
    except (KeyError, TypeError, ValueError) as error:
        expected = f"{', '.join(TARGET_SCORES)} of a target"
        raise MessageRefused(client, round, "metrics", repr(error), expected) from error
    # Errors that are not finite are kept: a client that diverged must show in the results.
    errors = (mae, rmse, loss, validation or 0.0)
    chosen = best is None or (1 <= best <= round and best.is_integer())
    if not 1 <= examples < 2**53 or min(errors) < 0 or r2 > 1 or not chosen:
        expected = (
            "1 or more examples, errors of 0 or more, r2 of 1 at most, a best round from 1 to "
            f"{round}"
        )
        raise MessageRefused(client, round, "metrics", str(dict(record)), expected)
    return TargetErrors(
        mae, rmse, r2, loss, int(examples), None if best is None else int(best), validation
    )
