"""The log of a round while it goes on: its rows and metrics, who answered, and who was slow."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedsub_core.metrics import MetricRow
from strategies.rounds.round_metrics import RoundMetrics


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
