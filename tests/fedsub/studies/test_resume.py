"""A run that is killed with SIGKILL, again and again, ends as if nothing had happened."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from fedsub_core.data.federation import Federation, write_federation
from fedsub_server.rundb import RunDatabase

METHODS = ("fedsub", "local", "fedavg")
ROUNDS = 120
KILLS = 6
DEADLINE = 60.0
ARGS = ("--data", "town", "--rounds", ROUNDS, "--threads", 2, "--device", "cpu")

# Imports once; for every line of arguments it forks a process that is `fedsub run`, says its id,
# and at the next line waits for it and says how it ended.
NURSERY = """
import json, os, sys
import fedsub.studies.run, fedsub_client.methods.fedsub.learner, strategies.methods.fedsub.strategy
import sklearn.cluster, sklearn.metrics
from fedsub.cli import main

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["fedsub", "run", *json.loads(line)]
        main()
    print(child, flush=True)
    sys.stdin.readline()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.release,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes made by fork"),
]


class Nursery:
    """Starts `fedsub run`, one process at a time, without importing anew for each."""

    def __init__(self, place: Path) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "OMP_NUM_THREADS": "1",
        }
        self.place = place
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            cwd=place,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *args: object) -> int:
        """Start a run; return its process id."""
        return int(self._ask(json.dumps([str(arg) for arg in args])))

    def wait(self) -> int:
        """Wait for the run's end; return its exit code, minus the signal that killed it."""
        return int(self._ask("wait"))

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@pytest.fixture(scope="module")
def nursery(
    town: Callable[..., Federation], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nursery]:
    place = tmp_path_factory.mktemp("resume")
    write_federation(place / "town", town(5, 12))
    nursery = Nursery(place)
    yield nursery
    nursery.process.communicate(timeout=DEADLINE)


@pytest.fixture(scope="module")
def undisturbed(nursery: Nursery) -> dict[str, object]:
    nursery.start(*ARGS, "--checkpoint-seconds", 3600, "--out", "calm")
    assert nursery.wait() == 0
    (folder,) = (nursery.place / "calm").iterdir()
    return contents(folder)


def contents(folder: Path) -> dict[str, object]:
    """Return everything a finished run holds that is not a time or a path."""
    held: dict[str, object] = {}
    for method in METHODS:
        own = folder / method
        held[f"{method}/metrics.csv"] = (own / "metrics.csv").read_bytes()
        for path in sorted((own / "models").iterdir()):
            held[f"{method}/models/{path.name}"] = path.read_bytes()
        with RunDatabase(own / "state.db") as database:
            round, state = database.load()
            held[f"{method}/round"] = round
            held[f"{method}/rows"] = list(map(repr, database.metrics()))
            for group, tensors in state.items():
                for name, tensor in tensors.items():
                    held[f"{method}/{group}/{name}"] = (tensor.dtype, tensor.numpy().tobytes())
    return held


def size(folder: Path) -> int:
    """Return the bytes of everything under `folder`."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # it was replaced between listing and looking
            continue
    return total


def wait_for_a_sign_of_life(out: Path) -> None:
    """Return once something under `out` is written, so that starting up takes no part in it."""
    before, end = size(out), time.monotonic() + DEADLINE
    while size(out) == before or not any(out.glob("*/run.toml")):
        assert time.monotonic() < end, "the run writes nothing"
        time.sleep(0.002)


def reached(folder: Path, copy: Path) -> dict[str, int]:
    """Return the last committed round of every method that has begun.

    Looks at a copy: to open a database mends it, which is the resumed run's own task.
    """
    shutil.copytree(folder, copy)
    rounds = {}
    for path in sorted(copy.glob("*/state.db")):
        with closing(sqlite3.connect(path)) as connection:
            made = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if made:  # a kill can leave an empty file
            with RunDatabase(path) as database:
                rounds[path.parent.name] = database.last_round()
    return rounds


def in_the_middle(rounds: Mapping[str, int]) -> bool:
    """Whether a kill fell between the first and the last committed round of a method."""
    return any(0 < round < ROUNDS for round in rounds.values())


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_kills_at_random_moments_change_nothing(
    nursery: Nursery, undisturbed: dict[str, object], seconds: float
) -> None:
    out = nursery.place / f"killed-{seconds}"
    moments = random.Random(f"kills {seconds}")
    run = nursery.start(*ARGS, "--checkpoint-seconds", seconds, "--out", out.name)
    seen: list[dict[str, int]] = []
    while len(seen) < KILLS or (len(seen) < 4 * KILLS and not any(map(in_the_middle, seen))):
        wait_for_a_sign_of_life(out)
        # The first signs are those of a run that looks at what it has.
        time.sleep(moments.uniform(0, 1.0))
        os.kill(run, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL, "the run was over before the kill"
        (folder,) = out.iterdir()
        seen.append(reached(folder, nursery.place / f"{out.name}-copy-{len(seen)}"))
        run = nursery.start("--resume", folder)
    assert nursery.wait() == 0
    assert contents(folder) == undisturbed
    # The kills fell into the middle of runs, and what was once committed was never lost.
    assert any(map(in_the_middle, seen))
    for earlier, later in pairwise(seen):
        assert all(later[method] >= round for method, round in earlier.items())
