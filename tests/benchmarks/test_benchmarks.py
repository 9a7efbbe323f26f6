"""Every benchmark still runs, and prints the lines that it is read for.

A script says itself what it takes: ``TINY``, the arguments that ``--tiny`` stands for; ``LINES``,
what its lines of results begin with; ``SLOW``, if even that size takes minutes: it runs before a
release alone. That names of the product are still there is found by mypy, which reads all scripts.
"""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ..nursery import Nursery, nursery

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
#: Seconds for a tiny size, on cores that have other things to do.
PATIENCE = 600
NUMBER = re.compile(r"\s[+-]?[0-9]+(\.[0-9]+)?\b")


#: What takes long to import, of all scripts.
IMPORTED = ("fedsub.engines.simulation", "fedsub.api", "sklearn.metrics", "pandas")

#: What can be called; the others are parts of one of these. Some need packages that may be absent.
WINGS = [wing for wing in ("fedsub_papers",) if find_spec(wing) is None]
SCRIPTS = [
    path
    for path in sorted(FOLDER.glob("*.py"))
    if "__name__ ==" in (text := path.read_text()) and not any(wing in text for wing in WINGS)
]


def scripts() -> list[object]:
    """One case for each script of the folder; those of minutes say so in their text."""
    assert SCRIPTS
    return [
        pytest.param(path, marks=[pytest.mark.release] * ("\nSLOW = True\n" in path.read_text()))
        for path in SCRIPTS
    ]


def environment(script: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of a script, which is told where real data are if it wants some."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env["FEDSUB_LOOK_SECONDS"] = "0.5"  # no round waits for SuperNodes that sleep
    if re.search(r"\bREAL\b", script.read_text()):
        env["FEDSUB_DATA"] = str(request.getfixturevalue("real_data"))
    return env


@pytest.fixture(scope="module")
def warm() -> Iterator[Nursery]:
    """A process that forks for each script: importing takes longer than most of them."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with nursery(*IMPORTED, env=env) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_a_tiny_size_runs_and_prints_its_results(
    script: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    says = runpy.run_path(str(script))
    expected = says["LINES"]
    env = environment(script, request)
    if says.get("SLOW"):
        # It starts processes itself, for which its own is looked at.
        command = [sys.executable, str(script), "--tiny"]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
    else:
        warm: Nursery = request.getfixturevalue("warm")
        done = warm.run(script, ["--tiny"], cwd=tmp_path, env=env, seconds=PATIENCE)
    assert done.returncode == 0, done.stderr
    printed = [line.strip() for line in done.stdout.splitlines()]
    assert expected
    for beginning in expected:
        rest = [line.removeprefix(beginning) for line in printed if line.startswith(beginning)]
        assert rest, f"no line {beginning!r} in:\n{done.stdout}"
        for text in rest:
            assert NUMBER.search(f" {text}") and "nan" not in text, f"{beginning}{text}"
    assert not list(tmp_path.iterdir()), "it left files behind"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_readme_has_a_section_of_it(script: Path) -> None:
    assert f"## `{script.name}`" in (FOLDER / "README.md").read_text(encoding="utf-8")
