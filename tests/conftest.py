"""Shared by all tests: one thread, randomness by name, files in memory, where real data lie."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
import torch
from _pytest.fixtures import FixtureDef, SubRequest
from hypothesis import settings
from matplotlib.figure import Figure

from fedsub_core.kernels import library

from .random_streams import seed_streams

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)

# Cases follow from a test's name, too, and how long one takes depends on who else computes: few in
# the fast suite, many in the slow one. `--hypothesis-profile=default` searches for new ones.
settings.register_profile("few", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("many", derandomize=True, deadline=None, max_examples=300)
settings.load_profile("few")

#: On a disk each new file, transaction and deletion takes milliseconds; in memory none does.
MEMORY, ROOM = Path("/dev/shm"), 8 * 2**30


def write_to_memory() -> None:
    """Let temporary files lie in memory where it has the room and runs programs: not in Docker."""
    if "TMPDIR" in os.environ or not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return
    shown, there = Path("/proc/meminfo").read_text(), os.statvfs(MEMORY)
    free = next(int(line.split()[1]) for line in shown.splitlines() if "MemAvailable" in line)
    if min(there.f_bavail * there.f_frsize, free * 1024) > ROOM and not there.f_flag & os.ST_NOEXEC:
        # Processes that tests start, xdist's workers among them, are told by the variable.
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


write_to_memory()

#: Slow tests that take minutes, by how their paths begin.
LONGEST = (
    "tests/fedsub/studies/test_study.py",
    "tests/methods/test_engines",
    "tests/fedsub/deploy/",
    "tests/docker/",
    "tests/docs/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the longest tests begin first: the workers then end at about the same time."""

    def place(item: pytest.Item) -> int:
        starts = (i for i, start in enumerate(LONGEST) if item.nodeid.startswith(start))
        return next(starts, len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: FixtureDef[object], request: SubRequest) -> Iterator[None]:
    """Let what a fixture draws follow from its name and scope, not from which test comes first."""
    seed_streams(f"{request.node.nodeid} {fixturedef.argname}")
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Let what a test draws follow from its name, in whatever order tests run."""
    seed_streams(item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let tests note in a folder of their own which code they named, not in their user's."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real federations: FEDSUB_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("FEDSUB_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real federations at {folder}: set FEDSUB_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def kernels() -> library.Kernels:
    """The compiled kernels, which must be there wherever there is a compiler."""
    found = library.kernels()
    if found is None and shutil.which("cc") is None:
        pytest.skip("no C compiler here, so no compiled kernels")
    assert found, "the compiled kernels are not built: pip install -e . builds them"
    return found


@pytest.fixture(params=["kernels", "torch"])
def either(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the compiled kernels compute, and PyTorch alone."""
    if request.param == "kernels":
        request.getfixturevalue("kernels")
        yield "kernels"
    else:
        with library.switched_off():
            yield "torch"


@pytest.fixture
def by_pytorch() -> Iterator[None]:
    """Let PyTorch alone compute: its operations can be counted."""
    with library.switched_off():
        yield


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages have all their figures, each of them blank: a test of words need draw none."""

    def save(figure: Figure, file: IO[bytes] | IO[str], *, format: str, **keys: object) -> None:
        blank = '<svg width="1pt" height="1pt" viewBox="0 0 1 1"></svg>'
        file.write(blank if format == "svg" else b"")  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", save)
