"""What becomes of mutations: tests run in a copy of the sources, without a fault and with each."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from .mutation import CannotRun, Mutation

#: Seconds by the clock for the tests of one mutation, on a machine that has other work.
PATIENCE = 300.0
#: What becomes of a mutation. Only the first is as it should be.
KILLED, SURVIVED, NOT_MADE = "killed", "survived", "not made"
NOT_RUN, TOO_SLOW = "tests did not run", "too slow"
#: Of pytest's exit statuses those that say something of the product: all passed, some failed.
PASSED, FAILED = 0, 1
#: The first test that failed, in pytest's summary.
FIRST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
#: Prints where each module that it is given comes from.
ORIGINS = "import importlib.util as u, sys\nfor n in sys.argv[1:]: print(u.find_spec(n).origin)"


@dataclass(frozen=True)
class Tested:
    """What pytest said: its exit status (None: it took too long), its words, and CPU seconds."""

    status: int | None
    words: str
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: by which test it was killed, or else why not; CPU seconds."""

    mutation: Mutation
    result: str
    by: str = ""
    seconds: float = 0.0


def copied(root: Path, tree: Path) -> None:
    """Copy what git tracks, or would track, and compiled code into a new folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout.decode()
    names = [name for name in listed.split("\0") if name and (root / name).is_file()]
    for name in [*names, *(path.name for path in root.glob("*.so"))]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, tree / name)


def environment(tree: Path) -> dict[str, str]:
    """Return variables by which a process, and those that it starts, import the copy."""
    # A fault of equal length within one second would leave a compiled file that looks new enough.
    own = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return os.environ | own


def demand_imported(tree: Path, mutations: Sequence[Mutation]) -> None:
    """Refuse a copy that is not what is imported, as where an installed package goes before it.

    Raises
    ------
    CannotRun
        It names a module that comes from elsewhere.
    """
    there = [one for one in mutations if (tree / one.file).is_file()]
    command = [sys.executable, "-c", ORIGINS, *(one.module for one in there)]
    env = environment(tree)
    said = subprocess.run(command, cwd=tree, env=env, check=True, stdout=subprocess.PIPE).stdout
    for one, origin in zip(there, said.decode().splitlines(), strict=True):
        if Path(origin).resolve() != (tree / one.file).resolve():
            raise CannotRun(f"{one.module}: got {origin}, expected it from the copy")


def tested(tree: Path, tests: Sequence[str], patience: float, *options: str) -> Tested:
    """Run tests in a copy, but for slow ones."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    command += ["-r", "fE", "--tb", "no", *options, *tests]
    late = threading.Event()
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def end() -> None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(patience, end)
        timer.start()
        # Those that it started and waited for count, too.
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        words.seek(0)
        said = words.read().decode(errors="replace")
    ended = None if late.is_set() else process.returncode
    return Tested(ended, said, used.ru_utime + used.ru_stime)


def tried(mutation: Mutation, tree: Path, patience: float = PATIENCE) -> Outcome:
    """Return what becomes of a mutation that is made in a copy."""
    try:
        with mutation.made(tree):
            found = tested(tree, mutation.tests, patience, "-x")
    except CannotRun as error:
        return Outcome(mutation, NOT_MADE, str(error))
    if found.status is None:
        return Outcome(mutation, TOO_SLOW, seconds=found.seconds)
    if found.status == PASSED:
        return Outcome(mutation, SURVIVED, seconds=found.seconds)
    first = FIRST.search(found.words)
    if found.status != FAILED or first is None:
        return Outcome(mutation, NOT_RUN, found.words.strip()[-500:], found.seconds)
    return Outcome(mutation, KILLED, first[1].partition("[")[0], found.seconds)


def demand_passing(trees: Sequence[Path], mutations: Sequence[Mutation], patience: float) -> float:
    """Refuse tests that fail without a fault; return how many CPU seconds they took.

    Raises
    ------
    CannotRun
        It says which failed.
    """
    tests = sorted({test for one in mutations for test in one.tests})

    def part(place: int) -> Tested | None:
        some = tests[place :: len(trees)]
        return tested(trees[place], some, patience * len(some)) if some else None

    with ThreadPoolExecutor(len(trees)) as pool:
        parts = [one for one in pool.map(part, range(len(trees))) if one is not None]
    for one in parts:
        if one.status != PASSED:
            raise CannotRun(f"without a fault: got\n{one.words[-3000:]}\nexpected all to pass")
    return sum(one.seconds for one in parts)


def every(
    root: Path,
    mutations: Sequence[Mutation],
    jobs: int = 1,
    patience: float = PATIENCE,
    say: Callable[[Outcome], None] = lambda _: None,
) -> tuple[list[Outcome], float]:
    """Return what becomes of each mutation, and the CPU seconds of tests without any.

    Parameters
    ----------
    root : of the sources, a working tree of git.
    jobs : how many are tried at a time, each in a copy of its own.
    patience : seconds by the clock for one's tests.
    say : is told of each outcome as it comes.

    Raises
    ------
    CannotRun
        If tests fail without a fault, or would import something else than the copy.
    """
    with tempfile.TemporaryDirectory(prefix="fedsub-mutations-") as folder:
        trees, free = [Path(folder) / str(job) for job in range(jobs)], SimpleQueue[Path]()
        for tree in trees:
            copied(root, tree)
            demand_imported(tree, mutations)
            free.put(tree)
        without = demand_passing(trees, mutations, patience)

        def one(mutation: Mutation) -> Outcome:
            tree = free.get()
            try:
                outcome = tried(mutation, tree, patience)
            finally:
                free.put(tree)
            say(outcome)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutations)), without
