"""What an engine of a study is, and one run, which all engines train alike."""

import time
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from pathlib import Path

from fedsub.engines.simulation import Progress
from fedsub.studies.run import check_data, train_methods
from fedsub.studies.study import Task
from fedsub.studies.tuning import tuning_run
from fedsub_core.config.run_config import dump_toml
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.files import make_folder, write_whole
from fedsub_server.run_folder import RUN_FILE

SECONDS_FILE = "seconds"
#: Told about every second of each task that is trained, and how many of its rounds are done as far
#: as that is known.
Underway = Callable[[Task, int], None]
#: Trains tasks, the first first, each in one thread into ``<folder>/<its name>``. Yields each as it
#: ends, with what went wrong or None; closed before, it begins no more.
Engine = Callable[[Sequence[Task], Path, Underway], Generator[tuple[Task, str | None], None, None]]


def train_run(
    task: Task, federation: Federation, folder: Path, progress: Progress = lambda round: None
) -> None:
    """Train a run to its end, from where it was left; its folder is that of any run."""
    config = task.config
    if task.tuning:
        federation, config = tuning_run(federation, config)
    else:
        check_data(config, federation)
    make_folder(folder)
    write_whole(folder / RUN_FILE, dump_toml(config).encode())
    begun = time.monotonic()
    train_methods(config, federation, folder, lambda name, round: progress(round))
    write_whole(folder / SECONDS_FILE, f"{time.monotonic() - begun:.1f}\n".encode())


@lru_cache(maxsize=4)
def federation_of(source: str) -> Federation:
    """Return the federation of a run's ``data``, read once in a process."""
    return load_federation(source)


def what_went_wrong(error: BaseException) -> str:
    """Return an error as the list of failed runs has it."""
    return f"{type(error).__name__}: {error}"
