"""CONTRIBUTING.md's walks work as they are written, in a fresh copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PACKAGES = ("fedsub", "fedsub_data", "fedsub_server", "strategies", "fedsub_client", "fedsub_core")
COST = re.compile(
    r"^Cost: (\d+) files? with (\d+) lines(?:, and (\d+) lines in (\d+) other files)?", re.MULTILINE
)


@dataclass(frozen=True)
class Walk:
    """A walk of the page.

    Parameters
    ----------
    files : text of each new file, by its path.
    edits : lines that stand in a file before and after an edit, with its path.
    commands : what is typed.
    cost : new files, their lines, new lines in other files, and how many these are, as written.
    """

    files: dict[str, str]
    edits: list[tuple[str, str, str]]
    commands: list[str]
    cost: tuple[int, ...]


def walk(what: str) -> Walk:
    """Return the walk `how to add` something."""
    (text,) = re.findall(
        rf"^## How to add a {what}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
    block = r"^```{} file=(\S+)\n(.*?)^```$"
    files = re.findall(block.format("(?:python|toml)"), text, re.MULTILINE | re.DOTALL)
    edits = []
    for path, lines in re.findall(block.format("diff"), text, re.MULTILINE | re.DOTALL):
        before, after = (re.sub(f"^[{sign}].*\n", "", lines, flags=re.MULTILINE) for sign in "+-")
        edits.append(
            (path, *(re.sub("^.", "", side, flags=re.MULTILINE) for side in (before, after)))
        )
    (cost,) = COST.findall(text)
    commands = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
    return Walk(dict(files), edits, commands, tuple(int(number or 0) for number in cost))


METHOD, PROTECTION, DATA, MODEL = WALKS = [
    walk(what) for what in ("method", "protection", "data set", "model kind")
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with the walks' files in it, and a table of nights."""
    copy = tmp_path_factory.mktemp("walks") / "fedsub"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*PACKAGES, "tests", "datasets"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for each in WALKS:
        for path, text in each.files.items():
            assert not (copy / path).exists(), "edits are written as such"
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_text(text, "utf-8")
        for path, before, after in each.edits:
            text = (copy / path).read_text("utf-8")
            assert text.count(before) == 1, (path, before)
            (copy / path).write_text(text.replace(before, after), "utf-8")
    stream = np.random.default_rng(1)
    rows = [
        f"p{person},{60 + 20 * wake + stream.normal():.2f},{wake + stream.normal():.2f},{stage}"
        for person in range(4)
        for wake, stage in enumerate(("sleep", "wake"))
        for _ in range(20)
    ]
    (copy / "nights.csv").write_text("\n".join(["person,heart,movement,stage", *rows]) + "\n")
    return copy


def run(copy: Path, command: str) -> str:
    """Return what a command of the page prints in the copy, by this Python's programs."""
    program, *arguments = re.findall(r'"[^"]*"|\S+', command)
    folder = copy
    if program == "pip":
        # What an editable installation writes, without touching this environment.
        (*_, name) = arguments
        arguments, folder = ["-q", "egg_info"], copy / name
    call = {
        "fedsub": ["-c", "from fedsub.cli import main; main()"],
        "pytest": ["-m", "pytest", "-p", "no:cacheprovider"],
        "pip": ["-c", "import setuptools; setuptools.setup()"],
    }[program]
    paths = os.pathsep.join([str(copy), str(copy / "ward")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *call, *(argument.strip('"') for argument in arguments)],
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("walk", WALKS, ids=["method", "protection", "data set", "model kind"])
def test_a_walk_costs_what_it_says(walk: Walk) -> None:
    edited = {path for path, _, _ in walk.edits}
    added = sum(after.count("\n") - before.count("\n") for _, before, after in walk.edits)
    lines = sum(len(text.splitlines()) for text in walk.files.values())
    assert walk.cost == (len(walk.files), lines, added, len(edited))


def test_a_method_is_short() -> None:
    card, learner, _ = METHOD.files.values()
    assert [path.split("/")[0] for path in METHOD.files] == [
        "fedsub_core",
        "fedsub_client",
        "tests",
    ]
    assert len(learner.splitlines()) <= 25 and len(card.splitlines()) <= 60


def test_the_files_pass_the_lint(copy: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    assert ruff is not None
    paths = {path for each in WALKS for path in (*each.files, *(edit[0] for edit in each.edits))}
    code = sorted(path for path in paths if path.endswith(".py"))
    for check in (["check"], ["format", "--check", "--diff"]):
        done = subprocess.run([ruff, *check, *code], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", METHOD.commands)
def test_a_method_does_what_the_page_says(command: str, copy: Path) -> None:
    printed = run(copy, command)
    if command.startswith("pytest"):
        # Its own three tests, and every one of the battery and the table.
        (passed,) = re.findall(r"(\d+) passed", printed)
        assert int(passed) > 12 and "failed" not in printed
    else:
        assert re.search(r"^\s*mine\s", printed, re.MULTILINE), printed


def test_a_protection_does_what_the_page_says(copy: Path) -> None:
    listed, tested, _ = PROTECTION.commands
    run(copy, listed)
    options = tomllib.loads((copy / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert options["group-size"] == 1
    assert re.search(r"\b3 passed", run(copy, tested))


@pytest.fixture(scope="module")
def ward(copy: Path) -> Path:
    """The tree with the package of the walks installed, and its data set prepared."""
    installed, _, prepared = DATA.commands
    run(copy, installed)
    assert "160" in run(copy, prepared)
    return copy


def test_a_data_set_does_what_the_page_says(ward: Path) -> None:
    printed = run(ward, DATA.commands[1])
    assert re.search(r"^\s*ward\s", printed[printed.index("the package ward") :], re.MULTILINE)
    people = [path.stem for path in sorted((ward / "ward-data" / "clients").iterdir())]
    assert people == ["p0", "p1", "p2", "p3"]


def test_a_model_kind_does_what_the_page_says(ward: Path) -> None:
    printed = run(ward, MODEL.commands[0])
    assert re.search(r"^ward-net\s+150\s", printed, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", [PROTECTION.commands[-1], MODEL.commands[-1]])
def test_a_run_uses_what_was_added(command: str, ward: Path) -> None:
    assert re.search(r"^\s*(fedavg|ditto)\s", run(ward, command), re.MULTILINE)
