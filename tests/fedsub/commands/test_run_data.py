"""What a run says of its data: how everybody was split, who is not in its numbers, and why."""

import csv
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fedsub.report.report import write_report
from fedsub.report.tables import print_results
from fedsub.studies.run import load_data, train_methods
from fedsub.testing.refusals import refused
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import dump_toml, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.errors import RunError
from fedsub_core.files import write_whole
from fedsub_server.results import method_summaries

from .calls import Call, assert_refused
from .test_run_refusals import QUICK, spoil

ALONE = ("--method", "local", "--beside", "", "--threads", "1", "--device", "cpu")


def one_signal(folder: Path, step: int = 8, people: int = 3, windows: int = 160) -> Path:
    """Windows of 64 samples cut every `step` from noise at 50 Hz, with random labels by fours."""
    (folder / "clients").mkdir(parents=True)
    (folder / "federation.toml").write_text(
        'name = "noise"\ntask = "none"\nclasses = ["a", "b", "c"]\nfeatures = ["x", "y", "z"]\n'
        "sampling_rate_hz = 50.0\n"
    )
    rng = np.random.default_rng(0)
    for person in range(people):
        signal = rng.normal(size=(3, step * windows + 64)).astype(np.float32)
        begins = range(0, step * windows, step)
        x = np.stack([signal[:, at : at + 64] for at in begins])
        y = np.repeat(rng.integers(0, 3, windows // 4), 4)
        np.savez(folder / "clients" / f"p{person}.npz", x=x, y=y, t=np.array(begins) / 50)
    return folder


def summary(folder: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads((folder / "summary.json").read_text())["methods"])


def run_of(said: tuple[int, str, str]) -> tuple[Path, str]:
    """Return the folder of a run that ended well, and what it printed, on one line."""
    code, out, err = said
    assert (code, err) == (0, "")
    return sorted(Path("runs").iterdir())[-1], " ".join(out.split())


@pytest.mark.usefixtures("blank_figures")
def test_overlap_that_the_file_shows_does_not_leak(fedsub: Call, tmp_path: Path) -> None:
    """Labels are random: whoever is better than chance has seen the tested signal."""
    data = one_signal(tmp_path / "noise")
    federation = load_data(read_config(None, {"data": str(data)}))
    for client in federation.clients.values():
        parts = split_client(client, federation.card, read_config(None, {}).split_settings)
        assert client.t is not None
        between = np.abs(client.t[parts.train][:, None] - client.t[parts.test][None])
        assert between.min() >= 1.28 - 1e-9 and len(parts.test) > 30
    found = {}
    for split in ("auto", "stratified"):
        told = ("--lr", "0.05", "--rounds", "30", "--evaluate-every", "30", "--split", split)
        folder, out = run_of(fedsub("run", "--data", data, *ALONE, *told))
        found[split] = summary(folder)["local"]["macro_f1"]
        kept = json.loads((folder / "data.json").read_text())
        warned = "Warning: Windows overlap" in out
        assert warned == (split == "stratified") == bool(kept["warnings"])
        assert {one["split"] for one in kept["splits"].values()} == {
            "auto": {"in time by t, gap 1.28 s"}, "stratified": {"at random in each class"}
        }[split]  # fmt: skip
    assert found["auto"] < 0.38 < 0.45 < found["stratified"]


@pytest.mark.usefixtures("blank_figures")
def test_the_page_says_which_split_everybody_got(fedsub: Call, tmp_path: Path) -> None:
    """Of one person the file has no times: that one is split at random, and it is said."""
    data = one_signal(tmp_path / "noise", people=2)
    path = data / "clients" / "p1.npz"
    with np.load(path) as file:
        np.savez(path, x=file["x"], y=file["y"])
    folder, out = run_of(fedsub("run", "--data", data, *ALONE, "--rounds", "1", "--report"))
    assert "those of 1 of 2 clients (p1) are divided at random" in out
    page = re.sub("<[^>]*>", " ", (folder / "report.html").read_text("utf-8"))
    assert "Of 2 people: 1 in time by t, gap 1.28 s, 1 at random in each class" in page
    assert "those of 1 of 2 clients (p1) are divided at random" in page
    with (folder / "tables" / "splits.csv").open() as file:
        found = {row["person"]: row["split"] for row in csv.DictReader(file)}
    assert found == {"p0": "in time by t, gap 1.28 s", "p1": "at random in each class"}


def test_all_who_cannot_be_split_are_named_at_once(fedsub: Call, town_folder: Path) -> None:
    for client in ("p1", "p3", "p4"):
        spoil(town_folder, client, x=np.eye(3, 4), y=np.arange(3))
    words = ("3 of 4 clients cannot be split: p1, p3, p4.", "but no class has two")
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), *words)
    assert not Path("runs").exists()
    code, out, err = fedsub("data", "inspect", town_folder, "--out", "look")
    assert code == 2 and Path("look", "report.html").is_file() and "Hopkins" in out
    assert all(word in err for word in ("`fedsub run` would refuse it", *words))


@pytest.mark.usefixtures("blank_figures")
def test_a_glitch_in_some_files_is_refused_before_the_run(fedsub: Call, town_folder: Path) -> None:
    glitch = np.ones((36, 4))
    glitch[::7, 0] = 3e38
    for client in ("p1", "p2"):
        spoil(town_folder, client, x=glitch[: 36 if client == "p1" else 39], y=np.arange(36) % 3)
    spoil(town_folder, "p2", x=np.vstack([glitch, glitch[:3]]), y=np.arange(39) % 3)
    words = ("p1.npz: client 'p1': x, row 0, feature 0 ('a'): got 3e+38", "p2.npz: client 'p2'")
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "2 of 4", *words)
    assert not Path("runs").exists()


def glitching(federation: Federation, *who: str) -> Federation:
    """Let people have values that no border has seen, as a mistake of ours would let through."""
    clients = dict(federation.clients)
    for name in who:
        x = clients[name].x.copy()
        x[::7, 0] = 3e38
        clients[name] = replace(clients[name], x=x)
    return Federation(federation.card, clients)


@pytest.mark.usefixtures("blank_figures")
def test_who_is_turned_away_is_named_in_tables_and_on_the_page(
    town: Callable[..., Federation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = read_config(None, {"rounds": 2, "beside": "local", "device": "cpu", "threads": 1})
    train_methods(config, glitching(town(), "p2"), tmp_path, lambda name, round: None)
    write_whole(tmp_path / "run.toml", dump_toml(config).encode())
    said = "Not in the numbers of fedsub, local: p2 (never tested: turned away, or it did not"
    print_results(Console(width=200), method_summaries(tmp_path))
    assert said in capsys.readouterr().out
    page = write_report(tmp_path)[0].read_text("utf-8")
    assert said in page and "mean over 3 of 4 people" in page and ">3 of 4<" in page
    with (tmp_path / "tables" / "methods.csv").open() as file:
        assert [row["left_out"][:4] for row in csv.DictReader(file)] == ["p2 ("] * 2
    assert summary(tmp_path)["local"]["people"] == 4


@pytest.mark.usefixtures("blank_figures")
def test_a_simulation_that_nobody_can_take_part_in_ends_at_once(
    town: Callable[..., Federation], tmp_path: Path
) -> None:
    config = read_config(None, {"method": "local", "beside": "", "device": "cpu", "threads": 1})
    everybody = glitching(town(), "p1", "p2", "p3", "p4")
    begun = time.monotonic()
    with refused(RunError, "0 of at least 1 clients", "data"):
        train_methods(config, everybody, tmp_path, lambda name, round: None)
    assert time.monotonic() - begun < 20


@pytest.mark.usefixtures("blank_figures")
def test_more_a_round_than_there_are_people(fedsub: Call, town_folder: Path) -> None:
    said = fedsub("run", "--data", town_folder, "--clients-per-round", "9", *QUICK)
    assert_refused(said, "clients-per-round: got 9, expected at most 4")
    assert not Path("runs").exists()


@pytest.mark.usefixtures("blank_figures")
def test_a_loss_that_is_no_number_is_said(fedsub: Call, town_folder: Path) -> None:
    told = ("--lr", "1e18", "--rounds", "3", "--report")
    folder, out = run_of(fedsub("run", "--data", town_folder, *ALONE, *told))
    expected = "The loss of local is not a number for p1, p2, p3, p4: training diverged"
    assert expected in out and expected in (folder / "report.html").read_text("utf-8")
    assert summary(folder)["local"]["diverged"] == "p1, p2, p3, p4"


@pytest.mark.usefixtures("blank_figures")
def test_a_class_that_nobody_is_tested_on_stays_in_the_tables(
    fedsub: Call, town_folder: Path
) -> None:
    for path in (town_folder / "clients").iterdir():
        with np.load(path) as file:
            x, y = file["x"], file["y"]
        x[2] = 50  # nothing that is tested is taken for it
        kept = np.flatnonzero((y != 2) | (np.arange(len(y)) == 2))
        np.savez(path, x=x[kept], y=y[kept])
    folder, out = run_of(fedsub("run", "--data", town_folder, *ALONE, "--rounds", "9", "--report"))
    expected = "Trained on, but tested by nobody: 'run'."
    assert expected in out and expected in (folder / "report.html").read_text("utf-8").replace(
        "&#x27;", "'"
    )
    with (folder / "tables" / "classes.csv").open() as file:
        assert {row["class"]: row["local"] == "" for row in csv.DictReader(file)} == {
            "sit": False, "walk": False, "run": True
        }  # fmt: skip


def test_copies_of_samples_are_counted(fedsub: Call, town_folder: Path) -> None:
    """Each sample stands twice: without a rule random labels would be known by heart."""
    rng = np.random.default_rng(0)
    for path in (town_folder / "clients").iterdir():
        x, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
        np.savez(path, x=np.repeat(x, 2, 0), y=np.repeat(y, 2))
    told = ("--rounds", "60", "--lr", "0.05", "--evaluate-every", "60", "--epochs", "5")
    folder, out = run_of(fedsub("run", "--data", town_folder, *ALONE, *told))
    assert "240 samples of all 4 clients repeat an earlier one exactly" in out
    assert summary(folder)["local"]["macro_f1"] < 0.45
    _, shown, _ = fedsub("data", "inspect", town_folder, "--out", "look")
    assert "samples that repeat another: 240 of 4 people" in shown
    assert json.loads(Path("look", "inspection.json").read_text())["repeated"] == [60] * 4
