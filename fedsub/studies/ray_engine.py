"""The engine of a study on the nodes of a Ray cluster, which need no files in common.

A run is trained in a temporary folder of some node and comes back as what its files hold; the
federation goes there through Ray's object store. A run that is lost with its node is repeated.
"""

import logging
import shutil
import signal
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import IO, Any

import torch

from fedsub.engines.ray_cluster import check_version, cluster, in_short
from fedsub.studies.engine import Engine, Underway, federation_of, train_run, what_went_wrong
from fedsub.studies.study import Task
from fedsub_core.data.federation import Federation
from fedsub_core.errors import FedSubError, RunError
from fedsub_core.files import lock, make_folder, replace_file, whole_folder
from fedsub_core.packages import build_with

log = logging.getLogger("fedsub")
#: So often a run is begun at most; one that takes its node with it would else go on for ever.
ATTEMPTS = 3
#: Seconds for runs to be cancelled.
_CANCEL = 15


#: How a run's folder is called, and the file in it that is locked.
PREFIX, LOCK = "fedsub-run-", "lock"


@contextmanager
def ray_engine(address: str | None, jobs: int | None) -> Iterator[Engine]:
    """Yield an engine of all CPUs of a cluster, or of at most `jobs` of them.

    Raises RunError as :func:`cluster`.
    """
    with cluster(address) as ray:
        yield _RayEngine(ray, jobs)


class _RayEngine:
    def __init__(self, ray: Any, jobs: int | None) -> None:
        self.ray, self.jobs = ray, jobs
        # Lost runs are counted and begun again here: Ray's own retries know cases without an end.
        self.train = ray.remote(num_cpus=1, max_retries=0)(train_on_node)
        self.federations: dict[str, Any] = {}

    def __call__(
        self, tasks: Sequence[Task], folder: Path, underway: Underway
    ) -> Generator[tuple[Task, str | None], None, None]:
        """Train tasks as :data:`Engine` says, as many at a time as there are CPUs."""
        ray, waiting = self.ray, deque(tasks)
        running: dict[Any, Task] = {}
        losses: Counter[str] = Counter()
        try:
            while waiting or running:
                places = self._places()  # anew: nodes come and go
                while waiting and len(running) < places:
                    task = waiting.popleft()
                    try:
                        running[self._begin(task)] = task
                    except FedSubError as error:  # data that cannot be read
                        yield task, what_went_wrong(error)
                ended, _ = ray.wait(list(running), timeout=1) if running else ([], [])
                for run in ended:
                    task = running.pop(run)
                    try:
                        left = ray.get(run)
                    except ray.exceptions.RayError as error:
                        losses[task.name] += 1
                        if losses[task.name] < ATTEMPTS:
                            why = type(error).__name__
                            log.warning("%s was lost and is repeated: %s", task.name, why)
                            waiting.appendleft(task)
                            continue
                        left = f"lost {ATTEMPTS} times, at last: {in_short(error)}"
                    if isinstance(left, str):
                        yield task, left
                    else:
                        _keep(left, folder / task.name)
                        yield task, None
                for task in running.values():
                    underway(task, 0)  # its rounds are known on its node alone
        finally:
            for run in running:
                ray.cancel(run)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_CANCEL)

    def _begin(self, task: Task) -> Any:
        source = task.config.data
        if source not in self.federations:
            self.federations[source] = self.ray.put(federation_of(source))
        return self.train.remote(task, self.federations[source], build_with(task.method))

    def _places(self) -> int:
        cpus = int(self.ray.cluster_resources().get("CPU", 0))
        if not cpus:
            raise RunError(
                "the Ray cluster has no CPU left. Start nodes (`ray start`), then the study again: "
                "finished runs are kept"
            )
        return cpus if self.jobs is None else min(cpus, self.jobs)


def train_on_node(task: Task, federation: Federation, version: str) -> dict[str, bytes] | str:
    """Train a run on a node; return what its files hold, by name, or what went wrong.

    Errors return as text, so that what Ray raises is always a run that was lost.
    """
    try:
        # It may have joined after the others.
        check_version("this one", build_with(task.method), version)
        torch.set_num_threads(1)
        leaving, temporary, kept = False, None, None

        def interrupt(number: int, frame: object) -> None:
            if not leaving:
                raise KeyboardInterrupt

        # Ray cancels again and again what takes its time to end: that must not end the cleaning up.
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            sweep()
            temporary = TemporaryDirectory(prefix=PREFIX)
            folder = Path(temporary.name) / "run"
            kept = locked(Path(temporary.name) / LOCK)
            train_run(task, federation, folder)
            files = (path for path in sorted(folder.rglob("*")) if path.is_file())
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        finally:
            leaving = True
            if temporary is not None:
                temporary.cleanup()
            if kept is not None:
                kept.close()
            signal.signal(signal.SIGINT, before)
    except Exception as error:
        return what_went_wrong(error)


def _keep(files: dict[str, bytes], folder: Path) -> None:
    """Make a run's folder, whole or not at all."""
    if folder.exists():  # begun by the local engine and interrupted
        shutil.rmtree(folder)
    with whole_folder(folder, RunError) as draft:
        for name, data in files.items():
            make_folder((draft / name).parent)
            replace_file(draft / name, data)


def locked(path: Path) -> IO[bytes]:
    """Make a file that says, while it is open, that its folder is in use."""
    draft = path.with_name(f"{path.name}.new")
    file = draft.open("xb")
    lock(file)
    draft.rename(path)  # so nobody ever finds it without its lock
    return file


def sweep() -> None:
    """Remove the folders of runs whose process was killed, as Ray does at a job's end."""
    for path in Path(gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError), path.open("rb") as file:
            if lock(file, wait=False):
                shutil.rmtree(path.parent, ignore_errors=True)
