"""The log of one round: metrics as clients report them, who answered, what is done now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from flwr.app import MetricRecord

from fedsub_core.errors import MessageRefused
from fedsub_core.metrics import ClientMetrics, MetricRow, confusion_rows
from fedsub_core.target_errors import TargetErrors, read_target_errors
from fedsub_core.wire import exchange, metric_record
from fedsub_core.wire.exchange import Content

#: What a run can be doing, in the order of a round.
GATHERING, TRAINING, EVALUATING, AGGREGATING = "gathering", "training", "evaluating", "aggregating"


class RoundMetrics:
    """Collects a round's metrics.

    Parameters
    ----------
    round : it is about.
    classes : of the federation.
    regression : whether a target is tested in the place of classes.
    """

    def __init__(self, round: int, classes: int, regression: bool = False) -> None:
        self.round, self.classes, self.regression = round, classes, regression
        #: How many of them those know who do not know all, by client.
        self.knows: Mapping[str, int] = {}
        self.by_client: dict[str, ClientMetrics | TargetErrors] = {}

    def take(self, client: str, content: Content) -> None:
        """Note a client's metrics of its test part.

        Raises MessageRefused if it says nothing, or a number outside its range.
        """
        record = exchange.numbers_of(content, exchange.METRICS)
        if record is None:
            raise MessageRefused(client, self.round, "metrics", "none", "a record of them")
        known = self.knows.get(client, self.classes)
        self.by_client[client] = (
            read_target_errors(record, client, self.round)
            if self.regression
            else metric_record.read_metrics(record, client, self.round, known)
        )

    def rows(self) -> list[MetricRow]:
        """Return all metrics as rows, and everybody's confusion matrix."""
        rows = [
            row
            for client, metrics in self.by_client.items()
            for row in metrics.rows(self.round, client)
        ]
        return rows + confusion_rows(
            self.round, [each.confusion for each in self.by_client.values()]
        )

    def mean(self) -> MetricRecord | None:
        """Return the unweighted mean over clients; None where nobody said anything."""
        if not self.by_client:
            return None
        known = [one for _, one in sorted(self.by_client.items()) if one.examples]
        means: dict[str, int | float | list[int] | list[float]] = {
            name: float(torch.tensor([getattr(one, name) for one in known]).double().mean())
            for name in ("mae" if self.regression else "macro_f1", "loss")
        }
        return MetricRecord(means)


@dataclass
class RoundLog:
    """The log of one round.

    Parameters
    ----------
    metrics : of everybody's model on its own test part.
    evaluated : whether they are asked for in this round.
    rows : what else is to be known of the round.
    answered : whether each client that was asked for something answered, and usably if it was to
        train.
    slow : who made the round wait, however usable its answer was.
    """

    metrics: RoundMetrics
    evaluated: bool = False
    rows: list[MetricRow] = field(default_factory=list)
    answered: dict[str, bool] = field(default_factory=dict)
    slow: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Now:
    """The present phase of a run; replaced, never changed, so that it is whole to whoever looks.

    Parameters
    ----------
    round : that it is in; 0 is the handshake.
    phase : one of those above.
    since : when that began, seconds since 1970.
    limit : how long answers are waited for at most, s; 0 where none are.
    """

    round: int = 0
    phase: str = GATHERING
    since: float = field(default_factory=time.time)
    limit: float = 0.0
