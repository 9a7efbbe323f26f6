"""What a finished study found: a row for every method, over people and seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub.report.comparing import interval
from fedsub.studies.folds import leaves_people_out, name_of_fold
from fedsub.studies.kept_runs import RUNS, database_of
from fedsub.studies.measures import mean_of, measured
from fedsub.studies.runner import final_tasks
from fedsub.studies.study import Cell, Entry, Study, Task, Values
from fedsub_core.metric_names import GAIN, OWN_HEADS
from fedsub_server.data_notes import read_notes
from fedsub_server.method_summary import MethodSummary
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method
from fedsub_server.task_scores import TaskScores
from fedsub_server.twins import IN_WORDS, LOCAL, OWN, better_twin


@dataclass(frozen=True)
class Run:
    """One finished run: what it was and reached, everybody's score, what else is shown.

    `trained_by` is the version and code of fedsub, `splits` says how everybody's samples were
    divided, by client; `beyond` what devices say of their people against the model that each has
    without others: 1 is better beyond noise, -1 worse, 0 neither; of nobody where it has none.
    `own_heads` is everybody's macro F1 with a head that is solved of its own samples alone.
    """

    task: Task
    summary: MethodSummary
    people: Mapping[str, float]
    measures: Mapping[str, float | None]
    trained_by: str
    splits: Mapping[str, str]
    beyond: Mapping[str, int]
    own_heads: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A method in a cell, over seeds.

    Parameters
    ----------
    score : macro F1 or MAE, mean over people of each person's mean over the seeds that tested it.
    means, worst : means over seeds of means over people by name, and of the worst tenth's
        percentile over people (:class:`.task_scores.TaskScores`).
    interval : the 95 % interval of the score over people.
    twin : what the cell's rows are held against; None for itself, or where there is none.
    gain, gain_interval : mean gain in score over the twin, and its 95 % interval; of an error how
        much less it is.
    worse : share of people who are worse off than with the twin, each person's mean over seeds.
    beyond : how many are better and worse beyond noise than with the model that their device has
        without others, of how many, a person in each seed; None where it has none.
    up, down, evaluation : full models a client and round.
    measures : what the study shows besides, and what papers print, means over seeds.
    """

    entry: Entry
    tested: str
    score: float
    interval: tuple[float, float] | None
    means: Mapping[str, float | None]
    worst: float
    twin: str | None
    gain: float | None
    gain_interval: tuple[float, float] | None
    worse: float | None
    beyond: tuple[int, int, int] | None
    up: float | None
    down: float | None
    evaluation: float | None
    tuned: Values
    measures: Mapping[str, float | None]


def finished(study: Study, folder: Path, chosen: Mapping[str, Values]) -> list[Run]:
    """Return all runs of a finished study, in the order of its file."""
    listed = (*study.show, *(name for printed in study.papers for name in printed.numbers))
    wanted = tuple(dict.fromkeys(listed))
    runs = []
    for task in final_tasks(study, dict(chosen)):
        with RunDatabase(database_of(folder, task)) as database:
            found = summarise_method(database, None)
            last = found.evaluated_round
            names = (study.scores.name, "examples", OWN_HEADS[0])
            at_end = [[r for r in database.metrics(n) if r.round == last] for n in names]
            # Without test samples a score is no number, which is no score of 0 either.
            tested = {row.client for row in at_end[1] if row.value}
            people, own = (
                {row.client: row.value for row in rows if row.client in tested}
                for rows in (at_end[0], at_end[2])
            )
            measures = {name: measured(database, found, name) for name in wanted}
            notes = read_notes(folder / RUNS / task.name).splits
            splits = {client: note.split for client, note in notes.items()}
            beyond = _beyond_noise(database, last)
            by = database.trained_by()
            runs.append(Run(task, found, people, measures, by, splits, beyond, own))
    return runs


def _beyond_noise(database: RunDatabase, round: int | None) -> dict[str, int]:
    """Return of everybody whether the interval of the gain over the own model excludes 0."""
    low, high = (
        {r.client: r.value for r in database.metrics(n) if r.round == round} for n in GAIN[1:]
    )
    return {client: (low[client] > 0) - (end < 0) for client, end in high.items()}


def tables(study: Study, runs: Sequence[Run]) -> list[tuple[Cell, list[Row]]]:
    """Return each cell's rows, the best score first; no cell of which all are missing."""
    found = []
    for cell in dict.fromkeys(cell for cell, _ in study.rows()):
        entries = [entry for one, entry in study.rows() if one == cell]
        of = [[r for r in runs if (r.task.cell, r.task.entry) == (cell, e)] for e in entries]
        twin = twin_of([run for each in of for run in each])
        alone = [run.people for each in of for run in each if run.task.method == LOCAL]
        rows = [_row(study.scores, own, twin, alone) for own in of]
        # What diverged is last.
        found.append((cell, sorted(rows, key=lambda row: _order(study.scores.sign * row.score))))
    return found


def _order(score: float) -> tuple[bool, float]:
    return math.isnan(score), -score


def _twins(runs: Sequence[Run]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of `local` and of own heads in a cell, by person and seed."""
    alone = [run for run in runs if run.task.method == LOCAL]
    beside = alone if any(run.own_heads for run in alone) else runs
    return (
        _of_seeds((run, run.people) for run in alone),
        _of_seeds((run, run.own_heads) for run in beside),
    )


def _of_seeds(each: Iterable[tuple[Run, Mapping[str, float]]]) -> dict[str, float]:
    return {
        f"{who} {run.task.config.seed} {name_of_fold(run.task.fold)}": f1
        for run, of in each
        for who, f1 in of.items()
    }


def twin_of(runs: Sequence[Run]) -> str:
    """Return the twin of a cell's rows; "" without one."""
    return better_twin(*_twins(runs))


def twins_in_words(study: Study, runs: Sequence[Run]) -> list[str]:
    """Return a sentence on the twins of a cell and their means; [] without any."""
    twin = twin_of(runs)
    both = [(name, of) for name, of in zip((LOCAL, OWN), _twins(runs), strict=True) if of]
    both.sort(key=lambda one: one[0] != twin)
    text = study.scores.text
    means = [f"{n} ({IN_WORDS[n]}) {text(float(np.mean(list(of.values()))))}" for n, of in both]
    return [f"Without others: {', '.join(means)}. Gains are over {twin}."] if means else []


def _row(
    scores: TaskScores, runs: Sequence[Run], twin: str, local: Sequence[Mapping[str, float]]
) -> Row:
    ours = [run.people for run in runs]
    theirs = local if twin == LOCAL else [run.own_heads for run in runs]
    itself = twin == runs[0].task.method
    gains = None if itself or not twin else scores.sign * gains_of(ours, theirs) + 0.0
    reached = _of_people(ours)

    def mean(name: str) -> float | None:
        values = [getattr(run.summary, name) for run in runs]
        # Where all test samples of a run have one value, there is no R2.
        return mean_of([v for v in values if v is not None or name != "r2"])

    # In a fold that leaves one person out, the percentile over people would be that person's.
    apart = len(reached) > 0 and leaves_people_out(runs[0].task.fold)
    each = [reached] if apart else [np.array(list(people.values())) for people in ours if people]
    low = float(np.mean([np.percentile(people, scores.worst) for people in each] or [np.nan]))

    return Row(
        runs[0].task.entry,
        _tested([run.summary for run in runs]),
        float(reached.mean()) if len(reached) else np.nan,
        interval(reached),
        {name: mean(name) for name in scores.others},
        low,
        None if gains is None else twin,
        None if gains is None else float(gains.mean()),
        None if gains is None else interval(gains),
        None if gains is None else float((~(gains >= 0)).mean()),
        _counted([side for run in runs for side in run.beyond.values()]),
        mean("full_models_up_sent"),
        mean("full_models_down_sent"),
        mean("full_models_evaluation_sent"),
        runs[0].task.tuned,
        {name: mean_of([run.measures[name] for run in runs]) for name in runs[0].measures},
    )


def _counted(sides: Sequence[int]) -> tuple[int, int, int] | None:
    return (sides.count(1), sides.count(-1), len(sides)) if sides else None


def _tested(reached: Sequence[MethodSummary]) -> str:
    """Return the name of the tested model, and the mean best round where one is chosen."""
    rounds = [one.best_round for one in reached if one.best_round is not None]
    chosen = f", round {np.mean(rounds):.0f} by validation" if rounds else ""
    return (reached[0].tested or "-") + chosen


def gains_of(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]
) -> NDArray[np.float64]:
    """Return each person's score less that of others of the same seeds, mean over seeds."""
    gains = []
    for run, other in zip(ours, theirs, strict=True):
        gains.append({person: run[person] - other[person] for person in run.keys() & other.keys()})
    # Rounded, so that who is equal in sum is not worse by the last bit.
    return np.round(_of_people(gains), 12)


def _of_people(seeds: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
    """Return each person's mean over the seeds in which it was tested, people by name."""
    people = sorted(set().union(*seeds))
    return np.array([np.mean([one[who] for one in seeds if who in one]) for who in people])
