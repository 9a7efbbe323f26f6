"""Processes of their own that save, wait for each other and are killed."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsub_client.store import STATE_FILE, FolderStore
from fedsub_core.files import DRAFT

SIZE = 40_000
# Imports once; every line it reads is run by a process that it forks.
NURSERY = """
import os, resource, signal, sys, time
from pathlib import Path
import torch
from fedsub_client.file_history import FileHistory
from fedsub_client.saved_state import Saved
from fedsub_client.store import FolderStore
from fedsub_core.errors import RunError

SIZE = int(sys.argv[1])

def saved(round):
    state = {"w": torch.full((SIZE,), float(round)), "n": torch.tensor(round)}
    file = FileHistory((9,), b"digest")
    return Saved("p", "run", "local", round, file, state, b"%d" % round)

def loop(report, folder):
    store = FolderStore(Path(folder), "p")
    while True:
        with store.lock():
            last = store.load()
            round = 1 if last is None else last.round + 1
            store.save(saved(round))
        os.write(report, b"%d\\n" % round)

def limit(report, folder):
    store = FolderStore(Path(folder), "p")
    store.save(saved(1))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, hard))
    try:
        store.save(saved(2))
    except RunError as error:
        os.write(report, f"{error}\\n".encode())
    os.write(report, b"%d\\n" % store.load().round)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.save(saved(2))
    os.write(report, b"%d\\n" % store.load().round)

def die(report, folder):
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    FolderStore(Path(folder), "p").save(saved(2))

def hold(report, folder):
    with FolderStore(Path(folder), "p").lock():
        os.write(report, b"%d\\n" % os.getpid())
        time.sleep(60)

for line in sys.stdin:
    work, folder, delay = line.split()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        globals()[work](writer, folder)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        print(lines.readline().strip(), flush=True)
        if float(delay):
            time.sleep(float(delay))
            os.kill(child, signal.SIGKILL)
        last = lines.read().split()
    os.waitpid(child, 0)
    print(*last, flush=True)
"""


class Nursery:
    """Processes of their own."""

    def __init__(self) -> None:
        root = str(Path(__file__).parents[3])
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY, str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        )

    def start(self, work: str, folder: Path, delay: float = 0.0) -> str:
        """Let a process do `work`, killed after a delay; return the first line it says."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{work} {folder} {delay}\n")
        self.process.stdin.flush()
        return self._line()

    def end(self) -> list[str]:
        """Return what else it said until it ended."""
        return self._line().split()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def drafts(store: FolderStore) -> list[str]:
    """Return what is in the folder of states that were not saved whole."""
    return [path.name for path in store.folder.glob(f"{DRAFT}*")]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    if not hasattr(os, "fork"):
        pytest.skip("needs processes made by fork")
    made = Nursery()
    yield made
    made.process.kill()  # what it forks ends with the test that asked for it
    made.process.communicate()


@pytest.mark.slow
def test_a_killed_device_has_its_last_state(
    nursery: Nursery,
    store: FolderStore,
    caplog: pytest.LogCaptureFixture,
    assert_whole: Any,
    names: Any,
) -> None:
    moments, before, kills, unfinished = random.Random(7), 0, 0, 0
    while kills < 12 or (not unfinished and kills < 100):
        kills += 1
        first = nursery.start("loop", store.folder.parent, moments.uniform(0.001, 0.03))
        told = int((nursery.end() or [first])[-1])
        left = drafts(store)
        assert len(left) <= 1, "each save sweeps what the process before it left"
        unfinished += len(left)
        found = store.load()
        # What it had saved is never lost; what it was saving may have made it.
        assert found is not None and found.round in (told, told + 1) and found.round > before
        assert_whole(found, found.round)
        before = found.round
    assert unfinished > 0, "no process was killed while it saved"
    assert caplog.text == "" and set(names()) - set(drafts(store)) == {STATE_FILE, "lock"}


def test_what_a_killed_process_left_is_swept_by_the_next_save(
    nursery: Nursery, store: FolderStore, saved: Any, assert_whole: Any, names: Any
) -> None:
    store.save(saved(1))
    for _ in range(2):
        nursery.start("die", store.folder.parent)
        assert nursery.end() == []
    (left,) = drafts(store)
    assert left.endswith(STATE_FILE) and names() == [left, STATE_FILE]
    assert_whole(store.load(), 1)
    store.save(saved(2))
    assert names() == [STATE_FILE]
    assert_whole(store.load(), 2)


def test_a_file_that_may_not_grow_leaves_the_old_state(
    nursery: Nursery, store: FolderStore, assert_whole: Any, names: Any
) -> None:
    said = nursery.start("limit", store.folder.parent)
    assert "client 'p', round 2: " in said and "File too large" in said
    assert nursery.end() == ["1", "2"]
    assert_whole(store.load(), 2)
    assert names() == [STATE_FILE]


def test_a_second_process_waits_until_the_first_has_died(
    nursery: Nursery, store: FolderStore
) -> None:
    holder = int(nursery.start("hold", store.folder.parent))
    locked = threading.Event()

    def wait() -> None:
        with FolderStore(store.folder.parent, "p").lock():
            locked.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not locked.wait(0.3)
    with FolderStore(store.folder.parent, "q").lock():
        pass  # another client's folder is free
    os.kill(holder, signal.SIGKILL)
    assert locked.wait(5)
    waiting.join()
    assert nursery.end() == []
