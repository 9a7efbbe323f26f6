"""Fixtures of a copy of the docker folder."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .docker_folder import certificate_script, compose_command, copy_folder, resolved

_MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> list[str]:
    """Lines of what was measured, to be shown at the end."""
    return pytestconfig.stash.setdefault(_MEASURED, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    if lines := terminalreporter.config.stash.get(_MEASURED, []):
        terminalreporter.section("measured on the wire")
        terminalreporter.write("\n".join([*lines, ""]))


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A copy of the docker folder, without what a person made there."""
    return copy_folder(tmp_path)


@pytest.fixture
def compose(docker: Path) -> Callable[..., str]:
    """Run docker-compose on the copy; nothing may be said on standard error."""
    return compose_command(docker)


@pytest.fixture
def resolve(compose: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Return the compose file with all that it refers to."""
    return lambda **settings: resolved(compose, **settings)


@pytest.fixture
def make_certs(docker: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the copy's make-certs.sh, with this tree's `fedsub` or what is in `path`."""
    return certificate_script(docker, tmp_path / "programs")
