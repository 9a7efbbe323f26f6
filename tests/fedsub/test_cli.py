"""The command line: what it offers."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub_core.version import VERSION


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_help_of_every_command_names_its_options(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "-h"])
    assert result.exit_code == 0
    for option in cli.commands[command].params:
        assert option.param_type_name == "argument" or option.opts[0] in result.output
    assert command in CliRunner().invoke(cli, ["--help"]).output


def test_its_version_is_the_packages() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output.strip().endswith(VERSION)
