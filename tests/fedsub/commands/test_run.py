"""Whole runs through the command line on data at the edge of what can be used."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.cli import main
from fedsub_core.config.run_config import read_config


def read_summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def run(monkeypatch: pytest.MonkeyPatch, *args: object) -> Path:
    """Run `fedsub run` to a good end; return the run's folder."""
    common = ("--rounds", "2", "--threads", "1", "--device", "cpu")
    monkeypatch.setattr(sys, "argv", ["fedsub", "run", *common, *map(str, args)])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    (folder,) = Path("runs").iterdir()
    return folder


def write_client(folder: Path, client: str, y: list[int]) -> None:
    x = np.random.default_rng(len(y)).normal(size=(len(y), 4))
    np.savez(folder / "clients" / f"{client}.npz", x=x, y=np.array(y))


def test_a_class_of_one_sample_is_trained_and_not_tested(
    monkeypatch: pytest.MonkeyPatch, town_folder: Path
) -> None:
    write_client(town_folder, "p1", [0, 0, 0, 1])
    write_client(town_folder, "p2", [2, 2])
    summary = read_summary(run(monkeypatch, "--data", town_folder))
    assert list(summary["methods"]) == ["fedsub", "local", "fedavg"]
    for numbers in summary["methods"].values():
        assert numbers["clients"] == 4 and numbers["rounds"] == 2
        assert 0 <= numbers["macro_f1"] <= 1 and numbers["loss"] > 0


def test_a_class_that_nobody_has(monkeypatch: pytest.MonkeyPatch, town_folder: Path) -> None:
    for client in ("p1", "p2", "p3", "p4"):
        write_client(town_folder, client, [0, 2] * 8)
    args = ("--set", "fedsub.impute=true", "--set", "fedsub.fusion=avg", "--beside", "")
    folder = run(monkeypatch, "--data", town_folder, *args)
    assert read_summary(folder)["methods"]["fedsub"]["clients"] == 4
    classes = {line.split(",")[2] for line in (folder / "fedsub" / "metrics.csv").open()}
    assert {"0", "2"} <= classes


def test_one_client(monkeypatch: pytest.MonkeyPatch, town_folder: Path) -> None:
    for client in ("p2", "p3", "p4"):
        (town_folder / "clients" / f"{client}.npz").unlink()
    summary = read_summary(run(monkeypatch, "--data", town_folder))
    reached = {name: numbers["loss"] for name, numbers in summary["methods"].items()}
    # Alone, FedSub and FedAvg are local training.
    assert reached["fedsub"] == reached["local"] == pytest.approx(reached["fedavg"], abs=1e-6)


def test_the_folder_says_how_it_came_about(
    monkeypatch: pytest.MonkeyPatch, town_folder: Path
) -> None:
    Path("my.toml").write_text('seed = 7\nbeside = "local"\n[fedsub]\nfusion = "avg"\n')
    args = ("my.toml", "--seed", "8", "--set", "fedsub.depth=1", "--data", town_folder)
    folder = run(monkeypatch, *args)
    config = read_config(folder / "run.toml")
    assert (config.seed, config.rounds, config.methods) == (8, 2, ("fedsub", "local"))
    assert config.hyper["fedsub"].fusion == "avg" and config.hyper["fedsub"].depth == 1  # type: ignore[attr-defined]
    assert {path.name for path in folder.iterdir()} == {
        *("run.toml", "summary.json", "fedsub", "local"),
    }
    models = {path.stem for path in (folder / "local" / "models").iterdir()}
    assert models == {"p1", "p2", "p3", "p4"}
