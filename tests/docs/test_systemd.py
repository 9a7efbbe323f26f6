"""The unit files: systemd reads them, and Flower's programs know every option in them."""

import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from fedsub.deploy.bounded_clientapp import INSTALLED_CODE
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


#: What every unit says, so that a program that is taken over can do little.
CLOSED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateDevices": "yes",
    "PrivateUsers": "yes",
    "CapabilityBoundingSet": "",
    "RestrictNamespaces": "yes",
    "SystemCallArchitectures": "native",
}
#: The most that `systemd-analyze security` may say.
MOST_EXPOSED = 3.0
#: Units of programs that see people's data or models.
SEES = ("fedsub-device-superexec", "fedsub-server-superexec")


def directives(unit: Path) -> dict[str, list[str]]:
    """Return a unit's directives: each one's values, in order."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text("utf-8").replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", "[")):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_closed_in(unit: Path) -> None:
    said = directives(unit)
    assert {key: said.get(key) for key in CLOSED} == {k: [v] for k, v in CLOSED.items()}
    assert said["MemoryMax"] and said["SystemCallFilter"] == ["@system-service", "~@privileged"]
    hidden = [
        path.lstrip("-") for value in said.get("InaccessiblePaths", []) for path in value.split()
    ]
    if unit.stem in SEES:
        assert said["IPAddressDeny"] == ["any"] and said["IPAddressAllow"] == ["localhost"]
        assert any(key.startswith(path) for path in hidden for key in KEYS[unit.stem])
        assert "%d/superexec.secret" in said["ExecStart"][0] and said["LoadCredential"]
    if unit.stem == "fedsub-supernode":
        assert hidden == ["/var/lib/fedsub/data", "/var/lib/fedsub/state"], "it needs no data"
        named = re.findall(r'"(/var/lib/fedsub/[a-z]+)"', said["ExecStart"][0])
        assert named == hidden, "what is hidden is what the ClientApp reads"


KEYS = {
    "fedsub-device-superexec": ["/etc/fedsub/node.key"],
    "fedsub-server-superexec": ["/etc/fedsub/server.key"],
}


def test_a_device_runs_installed_code_alone() -> None:
    (unit,) = (path for path in UNITS if path.stem == "fedsub-device-superexec")
    assert f"{INSTALLED_CODE}=1" in directives(unit)["Environment"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_them_closed_in(unit: Path) -> None:
    told = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        timeout=60,
    )
    (level,) = re.findall(r"exposure level for \S+: ([0-9.]+)", told.stdout)
    assert float(level) <= MOST_EXPOSED
