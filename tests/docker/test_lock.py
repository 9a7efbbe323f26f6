"""The packages of both images: each with its hashes, and nothing is missing."""

import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .containers import ROOT, VENV

SCRIPT = runpy.run_path(str(ROOT / "docker/lock.py"))
LOCKS, constraints = SCRIPT["LOCKS"], SCRIPT["constraints"]
#: The lock of the Flower that is here, and its constraints.
LOCK = ROOT / "docker" / (list(LOCKS)[version("flwr") >= "1.42"])
CLIENT = ROOT / "docker/client.Dockerfile"
EXTRAS = ("run", "privacy")


def locked() -> dict[str, tuple[str, int]]:
    """Return each package's version and number of hashes."""
    found = {}
    for one in re.split(r"^(?=[a-z0-9])", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, version = re.split("==", one.split()[0])
        found[name] = version, one.count("--hash=sha256:")
    return found


def wanted() -> Iterator[Requirement]:
    """Yield what the images ask for, and what that needs, as the packages here say it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    for extra in EXTRAS:
        lines += project["optional-dependencies"][extra]
    waiting, seen = [Requirement(line) for line in lines], set[str]()
    while waiting:
        one = waiting.pop()
        if one.name == "fedsub":
            waiting += [
                Requirement(line)
                for extra in one.extras
                for line in project["optional-dependencies"][extra]
            ]
            continue
        yield one
        if (key := f"{canonicalize_name(one.name)}{sorted(one.extras)}") in seen:
            continue
        seen.add(key)
        for line in distribution(one.name).requires or ():
            need = Requirement(line)
            if any(
                need.marker is None or need.marker.evaluate({"extra": extra})
                for extra in ("", *one.extras)
            ):
                waiting.append(need)


def test_the_list_has_all_that_images_need_in_the_tested_versions() -> None:
    """What is missing is written by `python docker/lock.py`."""
    have = locked()
    assert have["flwr"][0] == version("flwr")
    assert have and all(hashes for _, hashes in have.values())
    for need in wanted():
        name = canonicalize_name(need.name)
        if name != "torch":
            assert name in have, f"{need}: run docker/lock.py"
            assert need.specifier.contains(have[name][0], prereleases=True), need
    for line in constraints(LOCKS[LOCK.name]).splitlines():
        package, wanted_version = line.split("==")
        there = have.get(canonicalize_name(package), (wanted_version,))[0]
        assert there == wanted_version, line
    assert not have.keys() & {"torch", "triton"}


@pytest.mark.slow
@pytest.mark.release
def test_the_lines_of_a_devices_image_install_all_that_it_needs(tmp_path: Path) -> None:
    """On this machine, from the package index that it knows: PyTorch's own is another."""
    build = CLIENT.read_text(encoding="utf-8").split("\nFROM ")[1].replace("\\\n", " ")
    lines = [line for line in re.findall(r"^RUN (.+)$", build, re.MULTILINE) if "apt" not in line]
    assert len(lines) == 4
    moved = {VENV: f"{tmp_path}/venv", "/wheels": f"{tmp_path}/wheels", '"${LOCK}"': str(LOCK)}
    for line in lines:
        line = line.replace('--index-url "${TORCH_INDEX}"', "").replace("torch.sha256", "/dev/null")
        line = re.sub(r"^(?:python|pip)(?= )|(?<=&& )pip(?= )", f"{sys.executable} -m pip", line)
        line = line.replace("-m pip -m venv", "-m venv")
        for old, new in moved.items():
            line = line.replace(old, new)
        subprocess.run(["sh", "-ec", line], cwd=ROOT, check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "check"], check=True)
    command = "import fedsub_core.version, torch, flwr, sys; print(len(sys.modules))"
    subprocess.run([str(python), "-c", command], cwd=tmp_path, check=True)
