"""The command line: what it offers, and that whatever goes wrong is said in a line."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedsub import cli as command_line
from fedsub.cli import cli, main
from fedsub_core.version import VERSION

from ..nursery import nursery

#: What is not installed, a command that wants it, and the extra that brings it.
LACKING = [
    ("pandas", "data prepare wisdm --source file --out new", "tables"),
    ("neurokit2", "data prepare wesad --source file --out new", "data"),
    ("pooch", "data fetch wisdm --accept-terms", "data"),
    ("matplotlib", "run --rounds 1", "run"),
    ("matplotlib", "report .", "run"),
    ("matplotlib", "compare study.toml", "run"),
    ("matplotlib", "data inspect town", "run"),
    ("sklearn", "run --rounds 1 --no-report", "server"),
    ("threadpoolctl", "data prepare uci-har --source file --out new", "server"),
    ("zstandard", "run --rounds 1 --upload-encoding zstd", "zstd"),
    ("dp_accounting", "run --rounds 1 --set fedsub.prototype-noise=gaussian "
     "--set fedsub.prototype-clip=1 --set fedsub.prototype-sigma=1", "privacy"),
    ("ray", "run --engine ray", "ray"),
    ("ray", "compare study.toml --engine ray", "ray"),
    ("tensorboard", "run --tensorboard", "tensorboard"),
    ("mlflow", "run --mlflow sqlite:///m.db", "mlflow"),
    ("cryptography", "deploy certificates --dir certs --name localhost", "run"),
]  # fmt: skip
#: What takes long to import of what these commands load.
IMPORTED = ("flwr", "httpx", "matplotlib.pyplot", "numpy", "pandas", "scipy.stats",
            "sklearn.metrics", "torch", "fedsub.cli")  # fmt: skip
#: `fedsub`, as it is where a package is not installed: the first argument.
WITHOUT = """
import sys
from fedsub.cli import main
module = sys.argv.pop(1)
for name in [name for name in sys.modules if name.split(".")[0] == module]:
    del sys.modules[name]
sys.modules[module] = None
main()
"""


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process for each command")
def test_what_an_extra_brings_is_asked_for_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "study.toml").write_text('title = "A"\nrun.data = "watch"\nmethods.local = {}\n')
    program = tmp_path / "without.py"
    program.write_text(WITHOUT)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    with nursery(*IMPORTED, env=env) as started:
        for module, command, extra in LACKING:
            done = started.run(program, [module, *command.split()], cwd=tmp_path, env=env)
            assert done.returncode == 2 and done.stderr.count("\n") == 1, (command, done.stderr)
            asked = f"pip install 'fedsub[{extra}]'"
            assert module in done.stderr and asked in done.stderr, (command, done.stderr)


def fault(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(command_line, "cli", fail)
    with pytest.raises(SystemExit, match="2"):
        main()


def test_no_fault_prints_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fault(PermissionError(13, "Permission denied", "there/state.db"), monkeypatch)
    assert capsys.readouterr().err == "fedsub: there/state.db: Permission denied\n"
    assert not list(tmp_path.iterdir())
    fault(KeyError("of\ntwo lines"), monkeypatch)
    said = capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert said.count("\n") == 1 and "KeyError" in said and str(kept) in said
    assert "Traceback" not in said and "Traceback" in kept.read_text()
