"""A package with a method, as `fedsub new method` writes it, installed: it trains and is tested."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.new_method import write_package
from fedsub_core.version import build
from fedsub_server.run_folder import DATABASE_FILE, SUMMARY_FILE
from fedsub_server.rundb import RunDatabase

pytestmark = pytest.mark.slow
Call = Callable[..., str]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_package("mine", tmp_path_factory.mktemp("new") / "package")


@pytest.fixture(scope="module")
def python(package: Path) -> Call:
    """Run a module of Python with the package installed; return what was printed."""
    site = package.parent / "site"

    def call(*arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=package.parent,
            env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
            capture_output=True,
            text=True,
            timeout=1200,  # the battery is a minute of work, on a machine that is not busy
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    here = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    call("-m", "pip", "install", *here, "--target", site, package)
    return call


def fedsub(*arguments: object) -> tuple[object, ...]:
    return ("-c", "from fedsub.cli import main; main()", *arguments)


def assert_trained(folder: Path, rounds: int) -> None:
    # Not by our own readers: here there is no such method.
    methods = json.loads((folder / SUMMARY_FILE).read_text("utf-8"))["methods"]
    assert list(methods) == ["mine"] and 0 < methods["mine"]["macro_f1"] <= 1
    with RunDatabase(folder / "mine" / DATABASE_FILE) as database:
        assert database.last_round() == rounds
        by = re.escape(f"{build()} with fedsub-mine 0.1.0 (code ") + r"[0-9a-f]{10}\)"
        assert re.fullmatch(by, database.trained_by())


def test_it_stands_in_the_table(python: Call) -> None:
    assert "mine.lam = 1.0" in python(*fedsub("methods", "mine"))


def test_it_trains_in_simulation(python: Call, tmp_path: Path) -> None:
    given = ("--method", "mine", "--beside", "", "--rounds", 2, "--out", tmp_path, "--no-report")
    python(*fedsub("run", *given))
    assert_trained(next(tmp_path.iterdir()), 2)


@pytest.mark.release
def test_it_trains_in_a_deployment(python: Call, tmp_path: Path) -> None:
    given = ("--clients", 2, "--out", tmp_path, "--set", "method=mine", "--set", "rounds=2")
    said = python(*fedsub("deploy", "local", *given))
    (folder,) = re.findall(r"Run folder: (\S+)", said)
    assert_trained(Path(folder), 2)


def test_it_passes_its_own_tests(python: Call, package: Path) -> None:
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", package)
    (passed,) = re.findall(r"^(\d+) passed", said, re.MULTILINE)
    assert int(passed) > 25 and "failed" not in said
