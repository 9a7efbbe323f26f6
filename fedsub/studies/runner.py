"""Runs a study's tasks over the cores of this machine; what is finished is kept."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from fedsub.studies.comparison import compare
from fedsub.studies.study import Cell, Entry, Study, Task, Values, tasks, tuning_tasks
from fedsub.studies.tuning import training_part, tuning_config
from fedsub_core.config.run_config import dump_toml
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.errors import RunError
from fedsub_core.files import write_whole
from fedsub_core.methods.table import METHODS
from fedsub_server.results import DATABASE_FILE, RUN_FILE, SUMMARY_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import MethodSummary, summarise_method

RUNS, CHOSEN_FILE, SECONDS_FILE = "runs", "chosen.json", "seconds"
#: Called with a finished task, or with all that are to be done, and how many of their cost.
Progress = Callable[[str, float, float], None]


def run_study(study: Study, folder: Path, jobs: int, progress: Progress) -> dict[str, Values]:
    """Train all that is not trained yet; return the chosen values by :func:`row_key`.

    Raises
    ------
    RunError
        If runs failed; the others were finished first.
    """
    run_tasks(list(tuning_tasks(study)), folder, jobs, "tuning", progress)
    chosen = choose(study, folder)
    write_whole(folder / CHOSEN_FILE, (json.dumps(chosen, indent=2) + "\n").encode())
    run_tasks(list(final_tasks(study, chosen)), folder, jobs, "runs", progress)
    return chosen


def final_tasks(study: Study, chosen: dict[str, Values]) -> Iterator[Task]:
    """Yield the runs that the tables are made of."""
    return tasks(study, lambda entry, cell: chosen[row_key(entry, cell)])


def choose(study: Study, folder: Path) -> dict[str, Values]:
    """Return, for every row, the values of the greatest mean macro F1 on the validation part.

    Ties go to the first in the file; a run that diverged is never chosen where another is not.
    """
    chosen: dict[str, Values] = {}
    tried: dict[str, list[Task]] = {}
    for task in tuning_tasks(study):
        tried.setdefault(row_key(task.entry, task.cell), []).append(task)
    for cell in study.cells:
        for entry in study.entries:
            key = row_key(entry, cell)
            if key not in tried:
                chosen[key] = study.candidates(entry)[0]
                continue
            reached = [summary(folder, task).macro_f1 for task in tried[key]]
            scores = [-1.0 if f1 is None or f1 != f1 else f1 for f1 in reached]
            chosen[key] = tried[key][scores.index(max(scores))].tuned
    return chosen


def row_key(entry: Entry, cell: Cell) -> str:
    """Return what a row of a table is known by."""
    return "|".join([entry.label, *(f"{key}={value}" for key, value in cell)])


def summary(folder: Path, task: Task) -> MethodSummary:
    """Return what a finished run reached."""
    with RunDatabase(database_of(folder, task)) as database:
        return summarise_method(database, None)


def database_of(folder: Path, task: Task) -> Path:
    """Return the database of a run."""
    return folder / RUNS / task.name / task.method / DATABASE_FILE


def run_tasks(
    wanted: Sequence[Task], folder: Path, jobs: int, stage: str, progress: Progress
) -> None:
    """Run what is not finished, longest first, each in one thread of one process."""
    todo = [t for t in wanted if not (folder / RUNS / t.name / SUMMARY_FILE).is_file()]
    costs = {task.name: cost(task) for task in wanted}
    total = sum(costs.values())
    done = total - sum(costs[task.name] for task in todo)
    progress(stage, done, total)
    failed: list[str] = []
    todo.sort(key=lambda task: -costs[task.name])
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_one_thread) as pool:
        futures = {pool.submit(execute, task, folder): task for task in todo}
        try:
            for future in as_completed(futures):
                task = futures[future]
                if error := future.exception():
                    failed.append(f"{task.name}: {type(error).__name__}: {error}")
                done += costs[task.name]
                progress(stage, done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        raise RunError(
            f"{len(failed)} of {len(wanted)} runs failed, the others are kept. Correct what they "
            "name and start the study again:\n" + "\n".join(failed)
        )


def cost(task: Task) -> float:
    """Return about how long a run is, in samples that are trained on."""
    config, name = task.config, task.method
    epochs = METHODS[name].cost(config.hyper[name], config.epochs).round
    samples = sum(len(data.y) for data in _federation(config.data).clients.values())
    return float(config.rounds * samples * (epochs + 0.3))


def execute(task: Task, folder: Path) -> None:
    """Train a run to its end, from where it was left; its folder is that of any run."""
    own = folder / RUNS / task.name
    config, federation = task.config, _federation(task.config.data)
    if task.tuning:
        federation, config = training_part(federation, config), tuning_config(config)
    own.mkdir(parents=True, exist_ok=True)
    write_whole(own / RUN_FILE, dump_toml(config).encode())
    begun = time.monotonic()
    compare(config, federation, own, lambda name, round: None)
    write_whole(own / SECONDS_FILE, f"{time.monotonic() - begun:.1f}\n".encode())


@lru_cache(maxsize=4)
def _federation(source: str) -> Federation:
    return load_federation(source)


def _one_thread() -> None:
    torch.set_num_threads(1)
    # The process that started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def seconds(folder: Path, task: Task) -> float:
    """Return what a run took, all its beginnings but the last left out."""
    file: Any = folder / RUNS / task.name / SECONDS_FILE
    return float(file.read_text())
