"""What `fedsub doctor` finds, and what it says of what is missing."""

import json
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedsub.cli import cli
from fedsub.commands import doctor
from fedsub_core.extras import EXTRAS
from fedsub_core.kernels.library import switched_off
from fedsub_core.methods.table import BROKEN


def looked(result: Result) -> dict[str, tuple[str, str]]:
    return {one["what"]: (one["state"], one["found"]) for one in json.loads(result.output)}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_whole_installation_is_well() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    found = looked(result)
    assert result.exit_code == 0 and {state for state, _ in found.values()} <= {"ok", "note"}
    assert found["flwr"][1].startswith(("1.39", "1.42")) and found["extra train"][0] == "ok"
    assert {f"extra {extra}" for extra in EXTRAS.values()} <= found.keys()
    table = CliRunner().invoke(cli, ["doctor"])
    assert table.exit_code == 0 and "kernels" in table.output and "UTC" in table.output


def test_what_is_wrong_is_said_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", ("total", "used", "free"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2, 1, 1))
    monkeypatch.setattr(doctor, "requires", lambda name: ["torch<2", "no-such-package>=1"])
    monkeypatch.setitem(BROKEN, "theirs", "its package cannot be loaded")
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    found = looked(result)
    assert result.exit_code == 1
    assert found["disk"][0] == "wrong" and found["disk"][1].startswith("0.0 GiB free")
    assert (
        found["torch"][0] == "wrong" and "expected <2: pip install 'torch<2'" in found["torch"][1]
    )
    assert found["no-such-package"] == ("wrong", "missing: pip install 'no-such-package>=1'")
    assert found["method theirs"] == ("wrong", "its package cannot be loaded")


def test_notes_are_of_what_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", {port: "a server's devices"})
        with switched_off():
            result = CliRunner().invoke(cli, ["doctor", "--json"])
    found = looked(result)
    assert result.exit_code == 0
    assert found[f"port {port}"][0] == "note" and "taken" in found[f"port {port}"][1]
    assert found["kernels"][0] == "note" and "C compiler" in found["kernels"][1]
    assert found["extra ray"] == ("note", "not installed: pip install 'fedsub[ray]'")
