"""``fedsub serve``: a service is made, controlled and shown by its commands."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub_core.errors import ConfigError, RunError


def call(*arguments: object, token: str = "") -> str:
    env = {"FEDSUB_TOKEN": token or None, "COLUMNS": "200"}
    found = CliRunner().invoke(cli, ["serve", *map(str, arguments)], env=env)
    if found.exception is not None:
        raise found.exception
    return found.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = call("new", tmp_path / "svc", "--when", "every night at 2:30 Europe/Berlin",
                "--set", "method=fedsub-ridge", "--set", "min-clients=2")  # fmt: skip
    assert "has no 02:30" in made and "02:30 twice" in made
    return tmp_path / "svc"


def test_commands_act_on_the_folder(folder: Path) -> None:
    lines = call("status", folder).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "schedule", "next round", "waits", "last starts", "last failure",
    ]  # fmt: skip
    call("pause", folder)
    assert "none until `fedsub serve resume`" in call("status", folder)
    call("set", folder, "when=every 6 hours", "each=3")
    call("resume", folder)
    assert "every 6 hours, 3 rounds" in call("status", folder)
    code = call("token", folder, "ben", "--role", "reader", "--days", "2").strip()
    assert "every 6 hours" in call("status", folder, token=code)
    with pytest.raises(Exception, match="operator"):
        call("pause", folder, token=code)
    assert "ben" in call("token", folder) and code not in call("token", folder)
    call("token", folder, "ben", "--revoke")
    shown = call("audit", folder)
    assert shown.count("done") == 5 and shown.count("refused") == 1 and code not in shown


def test_a_folder_is_served_without_a_word(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.setattr("fedsub.service.serving.serve_folder", lambda *got: served.append(got[:2]))
    call(folder)
    call("start", folder, "--listen", "9465")
    assert served == [(folder, None), (folder, "9465")]
    with pytest.raises(SystemExit):
        call(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--when", "every night at 2"],
        ["--when", "always", "--set", "rounds=5"],
        ["--when", "always", "--set", "method=fedsub-gated"],
        ["--when", "always", "--set", "split=unseen"],
        ["--when", "always", "--set", "no-such-key=1"],
    ],
)
def test_what_cannot_be_served_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises((ConfigError, RunError)):
        call("new", tmp_path / "svc", *arguments)
    assert not list(tmp_path.iterdir())
