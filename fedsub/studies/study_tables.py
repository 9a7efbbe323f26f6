"""A study's tables: a row for every method, over people and seeds; and the runs as CSV.

Nothing in them tells when, where or in how many goes the study ran: a study that was killed and
went on ends in the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub.report.comparing import RESAMPLES, interval
from fedsub.studies.runner import database_of, final_tasks
from fedsub.studies.study import Cell, Entry, Study, Task, Values
from fedsub_core.files import write_whole
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import MethodSummary, summarise_method

RUNS_FILE, PEOPLE_FILE, TABLES_FILE = "runs.csv", "people.csv", "tables.md"
#: Of the resamples for intervals.
SEED = 0
#: What is left out of ``runs.csv``: what depends on the machine.
_TIMES = ("seconds",)


@dataclass(frozen=True)
class Run:
    """One finished run: what it was, what it reached, and everybody's macro F1 at its end."""

    task: Task
    summary: MethodSummary
    people: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A method in a cell, over seeds.

    Parameters
    ----------
    macro_f1, weighted_f1, loss, p10 : means over seeds of means (10th percentiles) over people.
    interval : the 95 % interval of the macro F1 over people, each person's mean over seeds.
    gain, gain_interval : mean gain in macro F1 over `local`, and its 95 % interval; None for
        `local` or without it.
    worse : share of people with less than `local`, each person's mean over seeds.
    up, down, evaluation : full models a client and round.
    """

    entry: Entry
    tested: str
    macro_f1: float
    interval: tuple[float, float] | None
    weighted_f1: float
    loss: float
    p10: float
    gain: float | None
    gain_interval: tuple[float, float] | None
    worse: float | None
    up: float | None
    down: float | None
    evaluation: float | None
    tuned: Values


def finished(study: Study, folder: Path, chosen: Mapping[str, Values]) -> list[Run]:
    """Return all runs of a finished study, in the order of its file."""
    runs = []
    for task in final_tasks(study, dict(chosen)):
        with RunDatabase(database_of(folder, task)) as database:
            found = summarise_method(database, None)
            last = found.evaluated_round
            rows = (row for row in database.metrics("macro_f1") if row.round == last)
            runs.append(Run(task, found, {row.client: row.value for row in rows}))
    return runs


def tables(study: Study, runs: Sequence[Run]) -> list[tuple[Cell, list[Row]]]:
    """Return each cell's rows, the greatest macro F1 first."""
    found = []
    for cell in study.cells:
        of = [[r for r in runs if (r.task.cell, r.task.entry) == (cell, e)] for e in study.entries]
        alone = next((own for own in of if own[0].task.method == "local"), None)
        rows = [_row(own, alone) for own in of]
        found.append((cell, sorted(rows, key=lambda row: -row.macro_f1)))
    return found


def _row(runs: Sequence[Run], alone: Sequence[Run] | None) -> Row:
    gains = None if alone is None or alone is runs else gains_of(runs, alone)
    people = sorted(set.intersection(*(set(run.people) for run in runs)))
    reached = np.array([[run.people[person] for person in people] for run in runs]).mean(axis=0)

    def mean(name: str) -> float:
        values = [getattr(run.summary, name) for run in runs]
        return float(np.mean([np.nan if value is None else value for value in values]))

    def sent(name: str) -> float | None:
        return None if getattr(runs[0].summary, name) is None else mean(name)

    return Row(
        runs[0].task.entry,
        runs[0].summary.tested or "-",
        mean("macro_f1"),
        interval(reached, SEED),
        mean("weighted_f1"),
        mean("loss"),
        mean("macro_f1_p10"),
        None if gains is None else float(gains.mean()),
        None if gains is None else interval(gains, SEED),
        None if gains is None else float((gains < 0).mean()),
        sent("full_models_up_sent"),
        sent("full_models_down_sent"),
        sent("full_models_evaluation_sent"),
        runs[0].task.tuned,
    )


def gains_of(runs: Sequence[Run], others: Sequence[Run]) -> NDArray[np.float64]:
    """Return each person's gain in macro F1 over other runs of the same seeds, mean over seeds."""
    people = sorted(set.intersection(*(set(run.people) for run in (*runs, *others))))
    ours, theirs = (
        np.array([[run.people[person] for person in people] for run in some])
        for some in (runs, others)
    )
    mean: NDArray[np.float64] = (ours - theirs).mean(axis=0)
    return mean


def write_tables(study: Study, folder: Path, chosen: Mapping[str, Values]) -> str:
    """Write ``tables.md``, ``runs.csv`` and ``people.csv``; return the first."""
    runs = finished(study, folder, chosen)
    text = markdown(study, tables(study, runs))
    write_whole(folder / TABLES_FILE, text.encode())
    write_whole(folder / RUNS_FILE, _runs_csv(study, runs).encode())
    write_whole(folder / PEOPLE_FILE, _people_csv(study, runs).encode())
    return text


def markdown(study: Study, found: Sequence[tuple[Cell, Sequence[Row]]]) -> str:
    """Return the tables as Markdown."""
    parts = [f"# {study.title}", *([study.about] if study.about else []), _protocol(study)]
    for cell, rows in found:
        if cell:
            parts.append("## " + ", ".join(f"{key} {_name(value)}" for key, value in cell))
        parts.append("\n".join(_lines(study, rows)))
    return "\n\n".join(parts) + "\n"


def _protocol(study: Study) -> str:
    tuned = "; nothing was tuned"
    if study.tune:
        values = "; ".join(f"{k} from {', '.join(map(str, v))}" for k, v in study.tune.items())
        tuned = f"; chosen on a validation part of the training data, with the first seed: {values}"
    budget = {
        "rounds": "all train for as many rounds",
        "compute": "all compute as many epochs in all, so that costly methods have fewer rounds",
    }[study.budget]
    return (
        f"Seeds {', '.join(map(str, study.seeds))}; {budget}{tuned}. Macro F1 is the mean over "
        "people and seeds of each person's own test part after the last round, with the 95 % "
        f"interval over people ({RESAMPLES:,} resamples, each person's mean over seeds); 10 %: the "
        "10th percentile over people; gain: over `local`; worse: people below `local`. "
        "Up, down, to evaluate: full models in float32 a client and round, as really sent."
    )


def _lines(study: Study, rows: Sequence[Row]) -> list[str]:
    titles = ["method", "tested", "macro F1", "10 %", "gain over local", "worse", "weighted F1"]
    titles += ["loss", "up / down / to evaluate", *study.tune]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        gain = "-"
        if row.gain is not None:
            gain = f"{row.gain:+.3f}{_ends(row.gain_interval, '+.3f')}"
        travels = " / ".join(
            "-" if x is None else f"{x:.2f}" for x in (row.up, row.down, row.evaluation)
        )
        cells = [
            row.entry.label,
            row.tested,
            f"{row.macro_f1:.3f}{_ends(row.interval, '.3f')}",
            f"{row.p10:.3f}",
            gain,
            "-" if row.worse is None else f"{row.worse:.0%}",
            f"{row.weighted_f1:.3f}",
            f"{row.loss:.3f}",
            travels,
            *(str(row.tuned.get(key, "-")) for key in study.tune),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _ends(interval: tuple[float, float] | None, form: str) -> str:
    return "" if interval is None else f" ({interval[0]:{form}} to {interval[1]:{form}})"


def _runs_csv(study: Study, runs: Sequence[Run]) -> str:
    rows = [
        {
            "label": run.task.entry.label,
            **{key: _name(value) for key, value in run.task.cell},
            "seed": run.task.config.seed,
            "tuned": json.dumps(dict(run.task.tuned), sort_keys=True),
            **{k: v for k, v in asdict(run.summary).items() if k not in _TIMES},
        }
        for run in runs
    ]
    return _csv(rows)


def _people_csv(study: Study, runs: Sequence[Run]) -> str:
    rows = [
        {
            "label": run.task.entry.label,
            **{key: _name(value) for key, value in run.task.cell},
            "seed": run.task.config.seed,
            "client": client,
            "macro_f1": value,
        }
        for run in runs
        for client, value in sorted(run.people.items())
    ]
    return _csv(rows)


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _name(value: object) -> str:
    """Return a value as people know it: of a federation's path the folder's name."""
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)
