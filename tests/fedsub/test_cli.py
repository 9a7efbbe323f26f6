"""The command line: what it offers."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub_core.version import VERSION


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("inspect", "`fedsub data inspect`"),
        ("comapre", "`fedsub compare`"),
        ("key", "`fedsub deploy key`"),
        ("data run", "`fedsub run`"),
        ("data inspct", "`fedsub data inspect`"),
        ("deploy ap", "`fedsub deploy app`"),
    ],
)
def test_a_command_that_is_none_is_answered_by_the_nearest(typed: str, meant: str) -> None:
    result = CliRunner().invoke(cli, typed.split())
    assert result.exit_code == 2
    assert f"No such command '{typed.split()[-1]}'. Did you mean {meant}?" in result.output
    assert "Did you mean" not in CliRunner().invoke(cli, ["xyzzy"]).output


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_help_of_every_command_names_its_options(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "-h"])
    assert result.exit_code == 0
    for option in cli.commands[command].params:
        assert option.param_type_name == "argument" or option.opts[0] in result.output
    assert command in CliRunner().invoke(cli, ["--help"]).output


def test_its_version_is_the_packages() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output.strip().endswith(VERSION)
