"""How a study is doing: how many of its runs have ended, and how far the others are."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fedsub.status.facts import Status, Trouble
from fedsub.status.machine import free_bytes, holder, memory_of
from fedsub.studies.engine import SECONDS_FILE
from fedsub.studies.kept_runs import RUNS
from fedsub.studies.kept_study import kept_study
from fedsub.studies.study import tasks, tuning_tasks
from fedsub_core.errors import RunError
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb_glance import glance


def study_status(folder: Path) -> Status:
    """Return how a study is doing, its runs counted as rounds.

    Raises ConfigError or RunError if its file is no study any more.
    """
    study = kept_study(folder)
    # Whatever values are chosen, there are as many runs; several tables may share one.
    rows = {task.name for task in tasks(study, lambda entry, cell: study.candidates(entry)[0])}
    wanted = len(rows) + len({task.name for task in tuning_tasks(study)})
    ended, seconds, parts, files = 0, 0.0, [], []
    for run in sorted((folder / RUNS).glob("*")) if (folder / RUNS).is_dir() else []:
        if (run / SECONDS_FILE).is_file():
            ended += 1
            with suppress(OSError, ValueError):
                seconds += float((run / SECONDS_FILE).read_text())
            continue
        for path in sorted(run.glob(f"*/{DATABASE_FILE}")):
            files.append(path)
            with suppress(RunError):  # just being made
                parts.append(f"{run.name}: round {glance(path).round}")
    process = holder(files)
    going = process is not None
    state = "finished" if ended >= wanted else "going on" if going else "stopped"
    status = Status(
        path=str(folder),
        kind="study",
        state=state if ended or parts or going else "not begun",
        round=min(ended + bool(parts), wanted),
        finished=min(ended, wanted),
        rounds=wanted,
        seconds=seconds,
        seconds_left=seconds / ended * (wanted - ended) if going and ended else None,
        disk_free=free_bytes(folder),
        memory=None if process is None else memory_of(process),
        parts=tuple(parts),
    )
    if status.state != "stopped":
        return status
    said, todo = f"stopped after {ended} of {wanted} runs", "Start it again, and it goes on"
    return replace(status, troubles=(Trouble("stopped", said, todo=todo),))
