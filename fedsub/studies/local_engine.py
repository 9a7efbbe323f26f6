"""The engine of a study on the cores of this machine."""

import os
import signal
import threading
from collections.abc import Generator, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

import torch

from fedsub.deploy.signals import EndSignals
from fedsub.studies.engine import Engine, Underway, federation_of, train_run, what_went_wrong
from fedsub.studies.study import Task

DIED = "its process died; was there memory enough? The system's log may say"
#: Seconds between two looks at how far runs are.
_LOOK = 1.0
#: In a process of the pool: for each run the rounds that are done, and one, or 0 before it begins.
_rounds: MutableSequence[int] = []


def local_engine(jobs: int) -> Engine:
    """Return an engine of `jobs` processes."""
    return partial(_spread, jobs)


def _spread(
    jobs: int, tasks: Sequence[Task], folder: Path, underway: Underway
) -> Generator[tuple[Task, str | None], None, None]:
    """Run tasks; where a process dies, those that had begun once more, each alone."""
    lost = yield from _together(jobs, tasks, folder, underway)
    while lost:
        # With one process it is known whose task made it die, and that has all of the memory.
        for task in lost[:jobs]:
            for died in (yield from _together(1, [task], folder, underway)):
                yield died, DIED
        lost = yield from _together(jobs, lost[jobs:], folder, underway)


def _together(
    jobs: int, tasks: Sequence[Task], folder: Path, underway: Underway
) -> Generator[tuple[Task, str | None], None, list[Task]]:
    """Run tasks; return those that were lost as a process died, those that had begun first."""
    others, ended, spawned = set(active_children()), list[Task](), get_context("spawn")
    # Memory in common, without a lock: a process that is killed can leave none of it locked.
    rounds = spawned.RawArray("i", len(tasks))
    with ProcessPoolExecutor(jobs, spawned, initializer=_begin, initargs=(rounds,)) as pool:
        try:
            # Signals wait: a process that got half of what it begins with would say so.
            with EndSignals():
                futures = {pool.submit(_train, t, folder, i): (t, i) for i, t in enumerate(tasks)}
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, _LOOK, FIRST_COMPLETED)
                for future in done:
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        continue
                    task, _ = futures[future]
                    ended.append(task)
                    yield task, None if error is None else what_went_wrong(error)
                for task, place in (futures[future] for future in waiting):
                    if rounds[place]:
                        underway(task, rounds[place] - 1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Runs go on from their last checkpoint when the study does.
            for process in set(active_children()) - others:
                process.terminate()
            raise
    return [task for task in tasks if task not in ended]


def _train(task: Task, folder: Path, place: int) -> None:
    def note(round: int) -> None:
        _rounds[place] = round + 1

    note(0)
    train_run(task, federation_of(task.config.data), folder / task.name, note)


def _begin(rounds: MutableSequence[int]) -> None:
    global _rounds
    _rounds = rounds
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
