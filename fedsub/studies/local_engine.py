"""The engine of a study on the cores of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

import torch

from fedsub.studies.engine import Engine, federation_of, train_run, what_went_wrong
from fedsub.studies.study import Task

DIED = "its process died; was there memory enough? The system's log may say"


def local_engine(jobs: int) -> Engine:
    """Return an engine of `jobs` processes."""
    return partial(_spread, jobs)


def _spread(
    jobs: int, tasks: Sequence[Task], folder: Path
) -> Generator[tuple[Task, str | None], None, None]:
    """Run tasks; where a process dies, those that had begun once more, each alone."""
    lost = yield from _together(jobs, tasks, folder)
    while lost:
        # With one process it is known whose task made it die, and that has all of the memory.
        for task in lost[:jobs]:
            for died in (yield from _together(1, [task], folder)):
                yield died, DIED
        lost = yield from _together(jobs, lost[jobs:], folder)


def _together(
    jobs: int, tasks: Sequence[Task], folder: Path
) -> Generator[tuple[Task, str | None], None, list[Task]]:
    """Run tasks; return those that were lost as a process died, those that had begun first."""
    others, ended = set(active_children()), list[Task]()
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin) as pool:
        futures = {pool.submit(_train, task, folder): task for task in tasks}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    continue
                ended.append(futures[future])
                yield futures[future], None if error is None else what_went_wrong(error)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Runs go on from their last checkpoint when the study does.
            for process in set(active_children()) - others:
                process.terminate()
            raise
    return [task for task in tasks if task not in ended]


def _train(task: Task, folder: Path) -> None:
    train_run(task, federation_of(task.config.data), folder / task.name)


def _begin() -> None:
    torch.set_num_threads(1)
    # The process that started this one ends it,
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # or is killed: one that trained on would meet the next start of the study in its folder.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
