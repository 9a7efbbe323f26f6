"""The unit files: systemd reads them, and Flower's programs know every option in them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from fedsub.deploy.flower_process import flower_environment, flower_program

UNITS = sorted((Path(__file__).parents[2] / "docs" / "systemd").glob("*.service"))
INSTALLED = "/opt/fedsub/bin/"


def command(unit: Path) -> list[str]:
    text = unit.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    return shlex.split(line)


def test_there_are_six() -> None:
    assert len(UNITS) == 6


@cache
def known(home: Path, name: str, *part: str) -> set[str]:
    """Return a program's options; several units start the same one."""
    called = [flower_program(name), *part, "--help"]
    env = flower_environment(home)
    told = subprocess.run(called, env=env, capture_output=True, text=True, timeout=60)
    return set(re.findall(r"--[a-z-]+", told.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_flower_knows_every_option(unit: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    program, *arguments = command(unit)
    name = program.removeprefix(INSTALLED)
    part = [word for word in arguments[:1] if not word.startswith("--")]
    options = {argument for argument in arguments if argument.startswith("--")}
    assert ("--superexec-auth-secret-file" in options) == (name != "fedsub")
    assert options <= known(tmp_path_factory.getbasetemp(), name, *part)


def test_the_status_of_no_run_does_not_make_its_unit_loop(tmp_path: Path) -> None:
    (unit,) = (path for path in UNITS if path.stem == "fedsub-status")
    _, name, folder, *options = command(unit)
    nowhere = str(tmp_path / Path(folder).name)
    called = [flower_program("fedsub"), name, nowhere, *options[:2]]
    told = subprocess.run(called, capture_output=True, text=True, timeout=60)
    assert f"{nowhere}: there is no such folder" in told.stderr
    assert f"RestartPreventExitStatus={told.returncode}\n" in unit.read_text("utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_reads_them(tmp_path: Path) -> None:
    for unit in UNITS:
        program = command(unit)[0]
        text = unit.read_text(encoding="utf-8")
        here = flower_program(program.removeprefix(INSTALLED))
        (tmp_path / unit.name).write_text(text.replace(program, here), encoding="utf-8")
    told = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / unit.name for unit in UNITS)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    # It also tells of units of this machine.
    assert told.returncode == 0 and "fedsub" not in told.stdout + told.stderr, told.stderr
