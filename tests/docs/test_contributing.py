"""CONTRIBUTING.md's walk-through works as it is written, in a fresh copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FILES = re.findall(r"^```python file=(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
PACKAGES = ("fedsub", "fedsub_data", "fedsub_server", "strategies", "fedsub_client", "fedsub_core")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with the walk-through's files in it."""
    copy = tmp_path_factory.mktemp("walk-through") / "fedsub"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*PACKAGES, "tests", "datasets"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for path, text in FILES:
        assert not (copy / path).exists(), "the walk-through edits a file"
        (copy / path).write_text(text, "utf-8")
    return copy


def run(copy: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the page in the copy, with this Python's programs."""
    program, *arguments = re.findall(r'"[^"]*"|\S+', command)
    call = {
        "fedsub": [sys.executable, "-c", "from fedsub.cli import main; main()"],
        "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
    }[program]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        call + [argument.strip('"') for argument in arguments],
        cwd=copy,
        env=environment | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_page_has_a_walk_through() -> None:
    assert [path.split("/")[0] for path, _ in FILES] == ["fedsub_core", "fedsub_client", "tests"]
    assert len(COMMANDS) == 3


def test_its_files_are_as_short_as_promised() -> None:
    card, learner, _ = (text for _, text in FILES)
    assert len(learner.splitlines()) <= 25 and len(card.splitlines()) <= 60


def test_its_files_pass_the_lint(copy: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    assert ruff is not None
    for check in (["check"], ["format", "--check"]):
        paths = [path for path, _ in FILES]
        done = subprocess.run([ruff, *check, *paths], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_do_what_they_say(command: str, copy: Path) -> None:
    done = run(copy, command)
    assert done.returncode == 0, done.stdout + done.stderr
    if command.startswith("pytest"):
        # Its own three tests, and every one of the battery and the table.
        (passed,) = re.findall(r"(\d+) passed", done.stdout)
        assert int(passed) > 12 and "failed" not in done.stdout
    else:
        assert re.search(r"^\s*mine\s", done.stdout, re.MULTILINE), done.stdout
