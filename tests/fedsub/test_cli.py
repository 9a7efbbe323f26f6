"""The command line: what it offers, and how it refuses what it cannot use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedsub.cli import cli, main
from fedsub_core.config.run_config import RunConfig
from fedsub_core.methods.table import METHODS
from fedsub_core.options import describe

Run = Callable[..., tuple[int, str, str]]
QUICK = ("--rounds", "1", "--threads", "1", "--device", "cpu")


@pytest.fixture
def fedsub(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Call the command as a shell would, in an empty folder; return code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedsub", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return run


def assert_refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one line that holds `words`, whatever else."""
    code, out, err = result
    assert code == 2 and out.strip() == ""
    assert err.startswith("fedsub: ") and err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err, err


def spoil(folder: Path, client: str, **arrays: object) -> None:
    """Replace arrays of a client's file."""
    path = folder / "clients" / f"{client}.npz"
    with np.load(path) as file:
        kept = dict(file)
    np.savez(path, **kept | {name: np.asarray(array) for name, array in arrays.items()})


# Help.


def test_help_of_run_names_every_key_with_its_default() -> None:
    said = CliRunner().invoke(cli, ["run", "--help"], terminal_width=100).output
    text = " ".join(said.split())
    for option in describe(RunConfig):
        assert f"--{option.key} " in text
        assert f"[default: {option.default if option.default != '' else 'none'}]" in text
        assert all(choice in text for choice in option.choices)
    assert "--resume" in text and "--set METHOD.KEY=VALUE" in text


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_help_of_every_command_names_its_options(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "-h"])
    assert result.exit_code == 0
    for option in cli.commands[command].params:
        assert option.param_type_name == "argument" or option.opts[0] in result.output
    assert command in CliRunner().invoke(cli, ["--help"]).output


def test_methods_lists_every_hyperparameter_whole(fedsub: Run) -> None:
    code, out, _ = fedsub("methods")
    text = " ".join(out.split())
    assert code == 0
    for name, row in METHODS.items():
        assert f"{name} {row.paper}" in text
        for option in describe(row.hyperparameters):
            default = str(option.default).lower() if option.type is bool else option.default
            assert f"{name}.{option.key} = {default} " in text
            assert option.doc in text and all(choice in text for choice in option.choices)


# Data that cannot be used.


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.full((36, 4), np.nan)}, ["p1.npz", "row 0", "nan", "finite"]),
        ({"y": np.full(36, 3)}, ["p1.npz", "label 3", "0 to 2"]),
        ({"y": np.full(36, -1)}, ["p1.npz", "label -1", "0 to 2"]),
        ({"y": np.zeros(35, int)}, ["p1.npz", "35 labels", "36"]),
        ({"x": np.zeros((36, 5))}, ["p1.npz", "(36, 5)", "[n, 4]"]),
        ({"x": np.zeros((36, 4, 64))}, ["'p2'", "(4,)", "'p1'", "(4, 64)", "alike"]),
        ({"x": np.zeros((1, 4)), "y": [1]}, ["'p1'", "1 samples", "Leave this client out"]),
        ({"x": np.zeros((0, 4)), "y": np.zeros(0, int)}, ["p1.npz", "no sample"]),
    ],
)
def test_a_clients_arrays_that_cannot_be_used(
    fedsub: Run, town_folder: Path, arrays: dict[str, object], words: list[str]
) -> None:
    spoil(town_folder, "p1", **arrays)
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), *words)
    assert not Path("runs").exists()


@pytest.mark.parametrize("size", [0, 20, 400])
def test_a_truncated_file(fedsub: Run, town_folder: Path, size: int) -> None:
    path = town_folder / "clients" / "p2.npz"
    path.write_bytes(path.read_bytes()[:size])
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "p2.npz", "damaged")
    assert not Path("runs").exists()


def test_a_file_that_is_a_folder_or_not_there(fedsub: Run, town_folder: Path) -> None:
    path = town_folder / "clients" / "p2.npz"
    path.unlink()
    path.symlink_to(town_folder / "gone.npz")
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "p2.npz", "no such file")
    path.unlink()
    path.mkdir()
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "p2.npz", "no such file")
    path.rmdir()
    for file in (town_folder / "clients").iterdir():
        file.unlink()
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "no client", "Put the files there")
    (town_folder / "federation.toml").unlink()
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "federation.toml", "no such file")
    assert_refused(fedsub("run", "--data", "nowhere", *QUICK), "nowhere", "Check the path")
    assert not Path("runs").exists()


def test_a_federation_of_one_class(fedsub: Run, town_folder: Path) -> None:
    for i, client in enumerate(("p1", "p2", "p3", "p4")):
        spoil(town_folder, client, y=np.ones(3 * (12 + i), int))
    refused = fedsub("run", "--data", town_folder, *QUICK)
    assert_refused(refused, "hold 1 class ('walk')", "two at least")
    assert not Path("runs").exists()


def test_a_client_alone_cannot_be_held_out(fedsub: Run, town_folder: Path) -> None:
    for client in ("p2", "p3", "p4"):
        (town_folder / "clients" / f"{client}.npz").unlink()
    unseen = ("--split", "unseen", "--rounds", "2", "--unseen-rounds", "1")
    refused = fedsub("run", "--data", town_folder, *unseen)
    assert_refused(refused, "got 1 client(s)", "blocked")
    assert not Path("runs").exists()


# Values that cannot be used.


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rounds", "0"], ["rounds", "got 0", "at least 1"]),
        (["--rounds", "many"], ["rounds", "got 'many'", "whole number"]),
        (["--lr", "nan"], ["lr", "nan", "above 0"]),
        (["--method", "fedsup"], ["unknown method 'fedsup'", "Did you mean 'fedsub'?"]),
        (["--beside", "local,fedavgg"], ["unknown method 'fedavgg'", "Did you mean 'fedavg'?"]),
        (["--set", "fedsub.fusoin=avg"], ["unknown key", "Did you mean 'fedsub.fusion'?"]),
        (["--set", "fedsub.fusion=averge"], ["fusion", "got 'averge'", "leadership, avg"]),
        (["--set", "fedavg.mu=1"], ["unknown key 'fedavg.mu'"]),
        (["--set", "fusion"], ["METHOD.KEY=VALUE"]),
        (["--model", "cnn1d"], ["cnn1d", "windows"]),
        (["--out", "a file"], ["a file", "choose another --out"]),
    ],
)
def test_values_that_cannot_be_used(
    fedsub: Run, town_folder: Path, args: list[str], words: list[str]
) -> None:
    Path("a file").touch()
    quick = QUICK if args[0] != "--rounds" else QUICK[2:]
    assert_refused(fedsub("run", "--data", town_folder, *quick, *args), *words)
    assert not Path("runs").exists()


def test_a_file_with_an_unknown_key(fedsub: Run) -> None:
    Path("run.toml").write_text("round = 3\n")
    assert_refused(fedsub("run", "run.toml"), "run.toml", "'round'", "Did you mean 'rounds'?")
    Path("run.toml").write_text("[fedsub]\ndeepth = 3\n")
    assert_refused(fedsub("run", "run.toml"), "Did you mean 'fedsub.depth'?")
    Path("run.toml").write_text("rounds = \n")
    assert_refused(fedsub("run", "run.toml"), "run.toml", "TOML")


def test_a_run_resumes_only_as_it_was(fedsub: Run, town_folder: Path) -> None:
    code, out, err = fedsub("run", "--data", town_folder, *QUICK, "--beside", "")
    assert code == 0 and err == ""
    (folder,) = Path("runs").iterdir()
    assert f"Run folder: {folder}" in out
    before = (folder / "fedsub" / "metrics.csv").read_bytes()
    changed = fedsub("run", "--resume", folder, "--rounds", "2")
    assert_refused(changed, str(folder), "rounds: 1 -> 2", "start a new run")
    hyper = fedsub("run", "--resume", folder, "--set", "fedsub.fusion=avg")
    assert_refused(hyper, "fedsub.fusion: 'overlapping' -> 'avg'")
    assert_refused(fedsub("run", folder / "run.toml", "--resume", folder), "leave the file out")
    assert fedsub("run", "--resume", folder, "--rounds", "1")[0] == 0
    assert (folder / "fedsub" / "metrics.csv").read_bytes() == before
    (folder / "fedsub" / "state.db").write_bytes(b"no database" * 500)
    code, _, err = fedsub("run", "--resume", folder)
    assert_refused((code, "", err), "state.db", "damaged", "restore a copy")


def test_a_folder_that_is_no_run(fedsub: Run, tmp_path: Path) -> None:
    assert_refused(fedsub("run", "--resume", tmp_path), str(tmp_path), "run.toml", "not a run")
    assert not list(tmp_path.iterdir())
