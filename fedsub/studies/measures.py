"""Numbers that a study's tables may show: of a run's summary, of its metrics, and to a target."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fedsub.studies.measure_names import SUMMARY, TO_TARGET
from fedsub_server.method_summary import MethodSummary
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import by_round

#: What a measure ends in that is of the evaluation before the last.
BEFORE = "-before"
#: With -at- and a capacity behind them: what the people reached whose devices have it.
AT_CAPACITY = ("macro-f1", "accuracy", "loss")


def measured(database: RunDatabase, found: MethodSummary, name: str) -> float | None:
    """Return a number of the summary, or a metric's mean in the last round that has it.

    With macro-f1-at-, accuracy-at- or loss-at- before a capacity: of the people whose devices have
    it. With -before: in the last evaluated round but one, to show which have converged.
    ``rounds-to-accuracy-0.8``, ``seconds-to-macro-f1-0.8``: until the mean over people first was
    as much, None where it never was.
    """
    if target := re.fullmatch(TO_TARGET, name):
        return _to_target(database, target["unit"], target["metric"], float(target["value"]))
    if name.endswith(BEFORE):
        rows = [r for r in database.metrics(_metric(name.removesuffix(BEFORE))) if r.client]
        earlier = [r for r in rows if r.round < rows[-1].round]
        return mean_of([r.value for r in earlier if r.round == earlier[-1].round])
    of, at, capacity = name.partition("-at-")
    if at and of in AT_CAPACITY:
        return found.by_capacity.get(capacity, {}).get(_metric(of))
    if name in SUMMARY:
        value = getattr(found, SUMMARY[name])
        return None if value is None else float(value)
    rows = list(database.metrics(_metric(name)))
    # What is of a class and nobody's is said anew only where it changed.
    last = {(r.client, r.label): r.value for r in rows if not r.client or r.round == rows[-1].round}
    return float(np.mean(list(last.values()))) if last else None


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean, None where a value is missing."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _to_target(database: RunDatabase, unit: str, metric: str, target: float) -> float | None:
    reached = by_round(database, _metric(metric))
    first = next((r for r, of in reached.items() if np.mean(list(of.values())) >= target), None)
    if first is None or unit == "rounds":
        return first
    # A commit has the time since the one before it, of all its rounds.
    seconds = database.seconds_by_round()
    whole = min(round for round in seconds if round >= first)
    return sum(took for round, took in seconds.items() if round <= whole)


def _metric(name: str) -> str:
    return name.replace("-", "_")
