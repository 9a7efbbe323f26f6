"""Every command's help ends with examples, and its options stand in sections."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub.commands.declared import SHORT
from fedsub.commands.examples import EXAMPLES
from fedsub.commands.run import REST, SECTIONS
from fedsub_core.config.run_config import RunConfig
from fedsub_core.options import describe


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(cli, "fedsub"))


def test_every_command_has_three() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()
    assert {len(set(lines)) for lines in EXAMPLES.values()} == {3}


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_an_example_is_what_the_command_takes(path: str) -> None:
    shown = CliRunner().invoke(cli, [*path.split()[1:], "--help"]).output
    for line in EXAMPLES[path]:
        assert f"  {line}\n" in shown
        (typed, *_) = line.split(" > ")[0].split(" && ")
        words = shlex.split(typed)[1:]
        command: click.Command = cli
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        # Reads options and arguments as a call does, and looks at no file.
        parser = command.make_parser(click.Context(command))
        _, left, _ = parser.parse_args(words)
        assert not left, line


def test_an_unknown_option_would_be_refused_here() -> None:
    command = COMMANDS["fedsub run"]
    with pytest.raises(click.NoSuchOption):
        command.make_parser(click.Context(command)).parse_args(["--no-such-option"])


def test_options_of_a_run_stand_in_sections() -> None:
    shown = CliRunner().invoke(cli, ["run", "--help"]).output
    titles = [line.removesuffix(":") for line in shown.splitlines() if line[:1] not in ("", " ")]
    assert [title for title in titles if not title.startswith("Usage")] == [*SECTIONS, REST]
    rest = shown[shown.index(f"{REST}:") : shown.index("Examples:")]
    assert "--help" in rest and rest.count("--") == 1, "every other option has its section"
    for option in describe(RunConfig):
        names = ", ".join([*SHORT.get(option.key, ()), f"--{option.key}"])
        assert shown.count(f"\n  {names} ") == 1, option.key


def test_a_shell_completes_as_the_page_says(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "running.md").read_text("utf-8")
    assert '`eval "$(_FEDSUB_COMPLETE=bash_source fedsub)"`' in page
    environment = os.environ | {"_FEDSUB_COMPLETE": "bash_complete", "COMP_WORDS": "fedsub rep"}
    program = Path(sys.executable).with_name("fedsub")
    done = subprocess.run(
        [program], env=environment | {"COMP_CWORD": "1"}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["plain,report"]
