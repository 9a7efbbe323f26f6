"""Runs a study's tasks, with an engine that spreads them; what is finished is kept."""

import json
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

from fedsub.studies.absent_data import absent_data, listing
from fedsub.studies.engine import SECONDS_FILE, Engine, federation_of
from fedsub.studies.kept_runs import RUNS, check_same_data, summary, warn_of_other_code
from fedsub.studies.study import (
    Cell,
    Entry,
    Study,
    Task,
    Values,
    name_of,
    shown,
    tasks,
    tuning_tasks,
)
from fedsub_core.errors import FedSubError, RunError
from fedsub_core.files import write_whole
from fedsub_core.methods.table import METHODS
from fedsub_server.method_summary import MethodSummary

log = logging.getLogger("fedsub")

CHOSEN_FILE = "chosen.json"


@dataclass(frozen=True)
class Stage:
    """How far one of a study's two stages is: the runs that choose values, and the runs.

    Parameters
    ----------
    name : ``tuning`` or ``runs``.
    ended, runs : how many runs have ended, of how many.
    done, total : the same by what runs cost, with the rounds of those that have not ended.
    now : the rounds that are known to be done of a run that is trained now, and all, by its name.
    """

    name: str
    ended: int
    runs: int
    done: float
    total: float
    now: Mapping[str, tuple[int, int]]


Progress = Callable[[Stage], None]


class RunsFailedError(RunError):
    """Runs failed, after all others were finished.

    Parameters
    ----------
    failed : what went wrong, by the run's name.
    rest : the study without the rows of which a run failed.
    chosen : its values, by :func:`row_key`.
    """

    def __init__(self, failed: Mapping[str, str], rest: Study, chosen: dict[str, Values]) -> None:
        self.rest, self.chosen = rest, chosen
        # What many runs failed of alike is said once: data that are not there.
        absent = {
            source: what for source, what in absent_data(rest).items() if what in failed.values()
        }
        each = "\n".join(f"{n}: {e}" for n, e in failed.items() if e not in absent.values())
        each = "\n".join(filter(None, (each, listing(absent))))
        super().__init__(
            f"{len(failed)} run{'s' * (len(failed) > 1)} failed, the others are kept. Correct what "
            f"they name and start the study again:\n{each}"
        )


def run_study(study: Study, folder: Path, engine: Engine, progress: Progress) -> dict[str, Values]:
    """Train all that is not trained yet; return the chosen values by :func:`row_key`.

    Raises RunsFailedError if runs failed; all others were finished first, but those whose values
    they were to choose.
    """
    first, absent = list(tuning_tasks(study)), absent_data(study)
    failed = run_tasks(first, folder, engine, "tuning", progress, absent)
    rest = _without(study, _hopeless(study, first, failed), failed)
    chosen = choose(rest, folder, failed)
    if tried := [name for name in sorted(failed) if failed[name] not in absent.values()]:
        none = ", ".join(tried)
        rest = replace(rest, about=f"{rest.about}\n\nNothing chosen of runs that failed: {none}.")
    write_whole(folder / CHOSEN_FILE, (json.dumps(chosen, indent=2) + "\n").encode())
    last = list(final_tasks(rest, chosen))
    failed |= run_tasks(last, folder, engine, "runs", progress, absent)
    if failed:
        raise RunsFailedError(failed, _without(rest, last, failed), chosen)
    return chosen


def unfinished_tuning(study: Study, folder: Path) -> list[str]:
    """Return the names of the study's tuning runs that have not finished."""
    names = [task.name for task in tuning_tasks(study)]
    return [name for name in names if not (folder / RUNS / name / SECONDS_FILE).is_file()]


def _hopeless(study: Study, first: Sequence[Task], failed: Container[str]) -> list[Task]:
    """Return the runs of rows that have no values left to choose.

    With too large a rate models leave all bounds and no upload can be used: such a run fails, and
    its values are not chosen; those of others are.
    """
    broken = [(task.cell, task.entry, task.tuned) for task in first if task.name in failed]
    whole = [task for task in first if (task.cell, task.entry, task.tuned) not in broken]
    left = {(task.cell, task.entry.label) for task in whole}
    return [task for task in first if (task.cell, task.entry.label) not in left]


def _without(study: Study, done: Iterable[Task], failed: Container[str]) -> Study:
    """Return the study without the rows of which a run failed; it says which are missing."""
    # Rows may have runs in common.
    out = {(task.cell, task.entry.label): None for task in done if task.name in failed}
    if not out:
        return study
    rows: dict[Cell, list[str]] = {}
    for cell, label in out:
        rows.setdefault(cell, []).append(label)
    each = []
    for cell, labels in rows.items():
        of = f" ({name_of(cell)})" if cell else ""
        whole = len(labels) == len(study.entries) > 1
        each += [f"all rows{of}"] if whole and cell else [f"{label}{of}" for label in labels]
    about = f"{study.about}\n\nMissing, as runs failed: {'; '.join(each)}."
    return replace(study, missing=study.missing | out.keys(), about=about)


def final_tasks(study: Study, chosen: dict[str, Values]) -> Iterator[Task]:
    """Yield the runs that the tables are made of."""
    return tasks(study, lambda entry, cell: chosen[row_key(entry, cell)])


def choose(study: Study, folder: Path, failed: Container[str] = ()) -> dict[str, Values]:
    """Return, for every row and fold, the values of the best score on validation parts.

    Ties go to the first in the file; values with which a run diverged, or is among those that
    `failed`, are never chosen where others are not.
    """
    tried: dict[str, list[Task]] = {}
    for task in tuning_tasks(study):
        tried.setdefault(row_key(task.entry, task.cell + task.fold), []).append(task)
    chosen: dict[str, Values] = {}
    for cell, entry, fold in ((c, e, f) for c, e in study.rows() for f in study.folds_of(c)):
        key, candidates = row_key(entry, cell + fold), study.candidates(entry)
        scores = []
        for values in candidates:
            with_these = [task for task in tried.get(key, ()) if task.tuned == values]
            broken = any(task.name in failed for task in with_these)
            reached = [] if broken else [summary(folder, task) for task in with_these]
            scores.append((-2, 0.0) if broken else _score(study, reached))
        chosen[key] = candidates[scores.index(max(scores))]
    return chosen


def _score(study: Study, reached: Sequence[MethodSummary]) -> tuple[int, float]:
    """Return the mean score of runs, more of it better; below all where a loss is no number."""
    of = study.scores
    each = [getattr(one, of.name) for one in reached if isfinite(one.loss or 0.0)]
    scores = [of.sign * score for score in each if score is not None]
    return (-1, 0.0) if len(scores) < len(reached) else (0, fmean(scores or [0.0]))


def row_key(entry: Entry, cell: Cell) -> str:
    """Return the name of a table's row."""
    return "|".join([entry.label, *(f"{key}={shown(value)}" for key, value in cell)])


def run_tasks(
    wanted: Sequence[Task],
    folder: Path,
    engine: Engine,
    stage: str,
    progress: Progress,
    absent: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Run what is not finished, longest first; return what failed, by name, and why.

    Runs of `absent` data (:func:`absent_data`) are not begun, and fail as these say.
    """
    # Tables may have runs in common: `local` does not know of what varies in FedSub.
    each = {task.name: task for task in wanted}
    # What is written last says that a run has ended.
    todo = [t for t in each.values() if not (folder / RUNS / t.name / SECONDS_FILE).is_file()]
    doing = {task.name for task in todo}
    warn_of_other_code([task for task in each.values() if task.name not in doing], folder)
    failed = {t.name: absent[t.config.data] for t in todo if t.config.data in absent}
    for what in dict.fromkeys(failed.values()):
        log.warning("%s. Its runs are left out", what)
    todo = [task for task in todo if task.name not in failed]
    costs = {name: cost(task) for name, task in each.items() if name not in failed}
    total = sum(costs.values())
    check_same_data(todo, folder)
    left = {task.name for task in todo}
    now: dict[str, tuple[int, int]] = {}

    def tell() -> None:
        done = total - sum(costs[name] for name in left)
        # A run ends after its last round, when all is written: a stage is done when its runs are.
        done += sum(costs[name] * round / (rounds + 1) for name, (round, rounds) in now.items())
        progress(Stage(stage, len(costs) - len(left), len(costs), done, total, dict(now)))

    def underway(task: Task, round: int) -> None:
        now[task.name] = round, task.config.rounds
        tell()

    tell()
    todo.sort(key=lambda task: -costs[task.name])
    with closing(engine(todo, folder / RUNS, underway)) as ended:
        for task, error in ended:
            if error is not None:
                failed[task.name] = error
            left.remove(task.name)
            now.pop(task.name, None)
            tell()
    return failed


def cost(task: Task) -> float:
    """Return about how long a run is, in samples that are trained on."""
    config, name = task.config, task.method
    epochs = METHODS[name].cost(config.hyper[name], config.epochs).round
    try:
        clients = federation_of(config.data).clients
    except FedSubError:
        return 1.0  # its run says it itself
    samples = sum(len(data.y) for data in clients.values())
    return float(config.rounds * samples * (epochs + 0.3))
