"""Numbers that a study's tables may show: their names and columns, and how runs give them."""

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fedsub.studies.study import Cell, Study
from fedsub_core.errors import ConfigError
from fedsub_server.method_summary import MethodSummary
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import by_round
from fedsub_server.task_scores import TARGET

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
#: Measures of how long it took until the mean over people first was as much.
TO_TARGET = (
    r"(?P<unit>rounds|seconds)-to-(?P<metric>(?P<error>mae|rmse)|macro-f1|weighted-f1|accuracy|r2)"
    r"-(?P<value>(?(error)\d*\.?\d+|(?:0?\.\d+|[01])))"
)
#: Of a summary words, and what takes a second method in the same run.
_UNMEASURED = ("method", "tested", "encoding", "twin", "gain-over-twin", "worse-than-twin")
#: The other numbers of a summary, as files spell them.
SUMMARY = {
    key: f.name
    for f in fields(MethodSummary)
    if (key := f.name.replace("_", "-")) not in _UNMEASURED
}


def check_measure(path: Path, name: Any) -> str:
    """Return the name of a number of a summary, or of a metric that methods report."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _UNMEASURED:
        raise ConfigError(
            f"{path}: got the measure {name!r}, expected one of {', '.join(SUMMARY)} or a metric "
            "of a method, such as davies-bouldin"
        )
    if name.startswith(("rounds-to-", "seconds-to-")) and not re.fullmatch(TO_TARGET, name):
        raise ConfigError(
            f"{path}: got the measure {name!r}, expected rounds or seconds to a macro-f1, "
            "weighted-f1, accuracy or r2 from 0 to 1, such as rounds-to-macro-f1-0.8, or to a mae "
            "or rmse"
        )
    return name


#: What a measure ends in that is of the evaluation before the last.
BEFORE = "-before"
#: With -at- and a capacity behind them: what the people reached whose devices have it.
AT_CAPACITY = ("macro-f1", "accuracy", "loss", "mae", "r2")


def measured(database: RunDatabase, found: MethodSummary, name: str) -> float | None:
    """Return a number of the summary, or a metric's mean in the last round that has it.

    With macro-f1-at-, mae-at-, loss-at- or the like before a capacity: of the people whose devices
    have it. With -before: in the last evaluated round but one, to show which have converged.
    ``rounds-to-accuracy-0.8``, ``seconds-to-macro-f1-0.8``: until the mean over people first was
    as much, or an error as little, as in ``rounds-to-mae-4``; None where it never was.
    """
    if target := re.fullmatch(TO_TARGET, name):
        return _to_target(database, target)
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


def _to_target(database: RunDatabase, asked: re.Match[str]) -> float | None:
    sign, least = (-1 if asked["error"] else 1), float(asked["value"])
    means = {
        r: np.mean(list(of.values()))
        for r, of in by_round(database, _metric(asked["metric"])).items()
    }
    first = next((r for r, mean in means.items() if sign * mean >= sign * least), None)
    if first is None or asked["unit"] == "rounds":
        return first
    # A commit has the time since the one before it, of all its rounds.
    seconds = database.seconds_by_round()
    whole = min(round for round in seconds if round >= first)
    return sum(took for round, took in seconds.items() if round <= whole)


def _metric(name: str) -> str:
    return name.replace("-", "_")


#: Where 12.000 would say more than there is.
_COARSE = ("rounds-to-", "seconds", "server-milliseconds")


def printed(study: Study, cell: Cell) -> dict[str, tuple[str, dict[str, float]]]:
    """Return the printed numbers of papers: by title the measure, and numbers by row."""
    found: dict[str, tuple[str, dict[str, float]]] = {}
    for paper in study.papers:
        for name, numbers in paper.numbers.items() if paper.of(cell) else ():
            found.setdefault(f"{name}: {paper.source}", (name, {}))[1].update(numbers)
    return found


def asked(study: Study, cell: Cell) -> list[str]:
    """Return the measures that a table has beyond those of all."""
    names = (*study.show, *(name for name, _ in printed(study, cell).values()))
    return [name for name in dict.fromkeys(names) if name not in study.scores.always]


def number(name: str, value: float | None) -> str:
    """Return a measure's number with three digits, rounds and times with one; errors with four."""
    if value is None:
        return "-"
    if name.startswith(_COARSE):
        return f"{value:.1f}"
    return TARGET.text(value) if name.startswith(("mae", "rmse")) else f"{value:.3f}"
