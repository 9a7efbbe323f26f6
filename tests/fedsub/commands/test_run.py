"""Whole runs through the command line on data at the edge of what can be used."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.methods.table import METHODS
from fedsub_core.options import describe

from .calls import Call

COMMON = ("run", "--rounds", "2", "--threads", "1", "--device", "cpu")


def read_summary(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "summary.json").read_text()))


@pytest.fixture
def run(fedsub: Call) -> Callable[..., Path]:
    """Run `fedsub run` to a good end; return the run's folder."""

    def finished(*args: object) -> Path:
        code, out, err = fedsub(*COMMON, *args)
        assert (code, err) == (0, "")
        (folder,) = Path("runs").iterdir()
        assert f"Run folder: {folder}\n" in out
        assert f": fedsub predict --run {folder} --client " in out
        return folder

    return finished


def write_client(folder: Path, client: str, y: list[int]) -> None:
    x = np.random.default_rng(len(y)).normal(size=(len(y), 4))
    np.savez(folder / "clients" / f"{client}.npz", x=x, y=np.array(y))


def test_a_class_of_one_sample_is_trained_and_not_tested(
    run: Callable[..., Path], town_folder: Path
) -> None:
    write_client(town_folder, "p1", [0, 0, 0, 1])
    write_client(town_folder, "p2", [2, 2])
    summary = read_summary(run("--data", town_folder))
    assert list(summary["methods"]) == ["fedsub", "local", "fedavg"]
    for numbers in summary["methods"].values():
        assert numbers["clients"] == 4 and numbers["rounds"] == 2
        assert 0 <= numbers["macro_f1"] <= 1 and numbers["loss"] > 0


def test_what_a_run_leaves_is_its_owners_alone(fedsub: Call, town_folder: Path) -> None:
    before = os.umask(0)
    try:
        assert fedsub("run", "--data", "town", "--rounds", 1, "--beside", "", "--report")[0] == 0
    finally:
        os.umask(before)
    left = [Path("runs"), *Path("runs").rglob("*")]
    assert {"state.db", "report.html", "p1.safetensors"} <= {path.name for path in left}
    for path in left:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_folders_name_is_printed_as_it_is(fedsub: Call, town_folder: Path) -> None:
    out = Path("[bold]runs").absolute()
    code, said, _ = fedsub(*COMMON, "--data", town_folder, "--beside", "", "--out", out)
    (folder,) = out.iterdir()
    assert code == 0 and f"Run folder: {folder}\n" in said


def test_a_class_that_nobody_has(run: Callable[..., Path], town_folder: Path) -> None:
    for client in ("p1", "p2", "p3", "p4"):
        write_client(town_folder, client, [0, 2] * 8)
    args = ("--set", "fedsub.impute=true", "--set", "fedsub.fusion=avg", "--beside", "")
    folder = run("--data", town_folder, *args)
    assert read_summary(folder)["methods"]["fedsub"]["clients"] == 4
    classes = {line.split(",")[2] for line in (folder / "fedsub" / "metrics.csv").open()}
    assert {"0", "2"} <= classes


def test_one_client(run: Callable[..., Path], town_folder: Path) -> None:
    for client in ("p2", "p3", "p4"):
        (town_folder / "clients" / f"{client}.npz").unlink()
    summary = read_summary(run("--data", town_folder))
    reached = {name: numbers["loss"] for name, numbers in summary["methods"].items()}
    # Alone, FedSub and FedAvg are local training.
    assert reached["fedsub"] == reached["local"] == pytest.approx(reached["fedavg"], abs=1e-6)


def test_a_split_at_random_is_said_below_the_tables(fedsub: Call, town_folder: Path) -> None:
    """Where the card knows no order in time, neighbours in time may be trained on and tested."""
    args = (*COMMON, "--data", town_folder, "--method", "local", "--beside", "")
    code, out, _ = fedsub(*args)
    assert code == 0 and "\nSplit: at random in each class, for everybody. If samples" in out
    assert "set time_ordered = true in federation.toml" in out
    card = town_folder / "federation.toml"
    card.write_text(card.read_text().replace("time_ordered = false", "time_ordered = true"))
    code, out, _ = fedsub(*args)
    assert code == 0 and "\nEverybody's samples were split in time.\n" in out
    card.write_text(card.read_text().replace("time_ordered = true", "time_ordered = false"))
    with np.load(town_folder / "clients" / "p1.npz") as held:
        arrays = dict(held)
    np.savez(town_folder / "clients" / "p1.npz", **arrays, t=np.arange(len(arrays["y"])) / 2)
    card.write_text(f"window_s = 1.0\n{card.read_text()}")
    code, out, _ = fedsub(*args)
    assert code == 0 and "\nSplit: at random in each class, for 3 of 4 people. If" in out


def test_the_folder_says_how_it_came_about(run: Callable[..., Path], town_folder: Path) -> None:
    Path("my.toml").write_text('seed = 7\nbeside = "local"\n[fedsub]\nfusion = "avg"\n')
    args = ("my.toml", "--seed", "8", "--set", "fedsub.depth=1", "--data", town_folder)
    folder = run(*args)
    config = read_config(folder / "run.toml")
    assert (config.seed, config.rounds, config.methods) == (8, 2, ("fedsub", "local"))
    assert config.hyper["fedsub"].fusion == "avg" and config.hyper["fedsub"].depth == 1
    assert {path.name for path in folder.iterdir()} == {
        *("run.toml", "summary.json", "data.json", "fedsub", "local"),
    }
    models = {path.stem for path in (folder / "local" / "models").iterdir()}
    assert models == {"p1", "p2", "p3", "p4"}


def test_help_names_every_key_with_its_default() -> None:
    said = CliRunner().invoke(cli, ["run", "--help"], terminal_width=100).output
    text = " ".join(said.split())
    for option in describe(RunConfig):
        assert f"--{option.key} " in text
        shown = str(option.default).lower() if option.type is bool else option.default
        assert option.default == "" or f"[default: {shown}]" in text
        assert all(choice in text for choice in option.choices)
    assert "--resume" in text and "--set METHOD.KEY=VALUE" in text


@pytest.mark.parametrize("command", [["run"], ["data", "import"]])
def test_help_says_what_happens_without_an_option(command: list[str]) -> None:
    said = CliRunner().invoke(cli, [*command, "--help"], terminal_width=100).output
    assert "[default: none]" not in " ".join(said.split())


def test_the_tables_of_the_longest_name_fit_a_terminal(fedsub: Call, town_folder: Path) -> None:
    longest = max(METHODS, key=len)
    beside = ("--method", longest, "--beside", "fedsub,local", "--data", town_folder)
    encodings = ("--upload-encoding", "delta,int8,zstd", "--download-encoding", "delta,bfloat16")
    code, out, _ = fedsub(*COMMON, *beside, *encodings)
    tables = out[out.index("macro F1") : out.index("Encoding: ")].splitlines()
    assert code == 0 and max(map(len, tables)) <= 80
    # Cut off, a cell would end in an ellipsis, and a title would be spread over a third line.
    assert "\u2026" not in out
    for name in (longest, "fedsub", "local"):
        assert sum(line.split()[:1] == [name] for line in tables) == 3, "reached, how evenly, sent"
    assert "delta,int8,zstd up, delta,bfloat16 down: " in " ".join(out.split())
