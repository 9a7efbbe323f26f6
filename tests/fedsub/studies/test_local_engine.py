"""A process that dies costs a study the run that it was for, and no other."""

import os
import signal
import time
from pathlib import Path

import pytest

from fedsub.studies import local_engine
from fedsub.studies.study import Entry, Task
from fedsub_core.config.run_config import RunConfig


def dies(task: Task, folder: Path, place: int) -> None:
    """Die as a process that the system kills; `fedprox` the first time only."""
    marked = folder / task.method
    again = marked.exists()
    marked.touch()
    deadline = time.monotonic() + 60
    # Otherwise `fedprox` may begin when it has a process to itself, and dies of itself there.
    while task.method == "fedavg" and not (folder / "fedprox").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if task.method == "fedavg" or (task.method == "fedprox" and not again):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_who_made_a_process_die_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes at work, then of one that has a task to itself."""
    monkeypatch.setattr(local_engine, "_train", dies)
    tasks = [
        Task(Entry(name, name, {}), (), RunConfig(method=name, beside=""))
        for name in ("fedavg", "ditto", "fedprox")
    ]
    engine = local_engine.local_engine(2)(tasks, tmp_path, lambda task, round: None)
    ended = {task.method: error for task, error in engine}
    assert ended.keys() == {task.method for task in tasks}
    assert ended.pop("fedavg") == local_engine.DIED
    assert set(ended.values()) == {None}
