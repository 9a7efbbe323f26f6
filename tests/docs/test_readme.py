"""The commands of README.md and docs/running.md: what they install, print and leave."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub.deploy.flower_process import flower_environment, flower_program, free_ports
from fedsub_client.loaded_model import load_model
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import read_card
from fedsub_server.rundb import RunDatabase

ROOT = Path(__file__).resolve().parents[2]
FIRST = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "running.md").read_text("utf-8")
RUN = "datasets/watch/run.toml"
(FLOWER,) = re.findall(r"^\.venv/bin/flwr (run .+)$", PAGE, re.MULTILINE)
(LEFT,) = re.findall(r"`(pgrep [^`]+)` shows its process id, `kill PID`", PAGE)
PEOPLE = 10
#: Runs are as the pages say, but shorter: what a line does shows after a few rounds, too.
SHORTER = {
    "--rounds 30": "--rounds 2",
    "--rounds 60": "--rounds 4",
    "--clients 3 --data people --set rounds=2": "--clients 2 --data people --set rounds=1",
}


def test_make_flower_installs_what_flwr_run_needs() -> None:
    assert re.search(r"^make flower ", PAGE, re.MULTILINE)
    command = ["make", "-n", "-B", "flower", "VENV=/no/such/venv"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (extra,) = re.findall(r"pip install .*-e '\.\[(\w+)\]'", printed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(
        need.startswith("flwr[simulation]") for need in project["optional-dependencies"][extra]
    )


def lines(page: str, title: str, place: int = 0) -> list[str]:
    """Return the lines of a code block below a page's title."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    block = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[place]
    return [line for line in block.splitlines() if line]


MAKE = lines(FIRST, "Start")
USE = lines(FIRST, "Start", 2)
OTHER = lines(PAGE, "On another federation")
REAL = lines(PAGE, "On real devices")


def test_the_first_page_is_short() -> None:
    assert len(FIRST.splitlines()) <= 96 and max(map(len, FIRST.splitlines())) <= 140


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder like this one after a clone, with what `make` installs and a shorter run."""
    programs = Path(sys.executable).parent
    if not (programs / "activate").is_file():
        pytest.skip("needs a virtual environment")
    for path in ROOT.iterdir():
        if path.name not in ("runs", ".venv", ".git", "datasets"):
            (tmp_path / path.name).symlink_to(path)
    # The recordings lie beside the code.
    whole, few = (ROOT / RUN).read_text("utf-8"), "rounds = 12"
    assert "rounds = 60" in whole
    (tmp_path / RUN).parent.mkdir(parents=True)
    (tmp_path / RUN).write_text(whole.replace("rounds = 60", few), "utf-8")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(programs)
    (tmp_path / ".venv" / "run.installed").touch()
    return tmp_path


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_persons_model_is_used_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run = ["run", str(ROOT / RUN)]
    typed = [[*make_run, "--rounds", "1", "--method", "local", "--beside", "", "--no-report"]]
    typed += [shlex.split(line, comments=True)[1:] for line in USE if "fedsub " in line[:7]]
    assert [line[0] for line in typed] == ["run", "data", "predict", "export"]
    for line in typed:
        done = CliRunner().invoke(cli, line)
        assert done.exit_code == 0, (line, done.output, done.exception)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 434
    assert (tmp_path / "model.pt").is_file()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.slow
def test_the_pages_lines_do_what_they_say_one_after_another(checkout: Path) -> None:
    """Each after what stands above it, but for the suite and the studies; with fewer rounds."""
    assert [line.split("#")[0].strip() for line in MAKE] == ["make run", "make test"]
    prepared, *other = OTHER
    assert prepared.split("#")[0].strip() == USE[1].split("#")[0].strip(), "said on both pages"
    (resume,) = (line for line in other if "--resume" in line)
    ditto = "$(ls -d runs/people-ditto-*)"
    other = [line.replace("runs/<folder>", ditto) for line in other if "compare" not in line]
    assert resume not in other
    script = "\n".join([MAKE[0], *USE, *other, *REAL])
    for written, typed in SHORTER.items():
        assert script.count(written) == 1, written
        script = script.replace(written, typed)
    # Make would install this folder, which is deleted, into the environment that VENV names.
    own = {name: value for name, value in os.environ.items() if name != "VENV"}
    done = subprocess.run(
        ["bash", "-euxc", script],
        cwd=checkout,
        env=own,
        capture_output=True,
        text=True,
        timeout=900,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    (run,) = checkout.glob("runs/watch-fedsub-*")
    assert f"Model: {run.relative_to(checkout)}/fedsub/models/01.safetensors" in said
    assert re.search(r"Model: runs/deploy-[\d-]+/state/01\n", said)
    predicted = list(csv.DictReader((checkout / "predictions.csv").open()))
    with np.load(checkout / "people" / "clients" / "01.npz") as file:
        x, y = file["x"], file["y"]
    classes = read_card(checkout / "people").classes
    right = [row["class"] == classes[label] for row, label in zip(predicted, y, strict=True)]
    assert np.mean(right) > 0.8, "most of what it was trained on"
    module = torch.jit.load(checkout / "model.pt")  # type: ignore[no-untyped-call]
    answers = module(torch.from_numpy(x.astype(np.float32))).argmax(1)
    assert [classes[i] for i in answers] == [row["class"] for row in predicted]
    (resumed,) = checkout.glob("runs/people-ditto-*")
    assert "rounds = 4" in (resumed / "run.toml").read_text()


class LocalFlower:
    """Flower's command line with a home and a local SuperLink of its own."""

    def __init__(self, home: Path) -> None:
        (port,) = free_ports(1)
        self.env = flower_environment(home) | {"FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port)}
        self.home = home

    def flwr(self, arguments: list[str]) -> str:
        """Run a command; return all it printed."""
        command = [flower_program("flwr"), *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=400
        )
        return done.stdout + done.stderr

    def start(self) -> None:
        """Start the SuperLink: Flower gives it 15 s, and a busy machine needs more tries."""
        until = time.monotonic() + 180
        while "{" not in (said := self.flwr(["list", "local", "--format", "json"])):
            assert time.monotonic() < until, said

    def status(self) -> str:
        """Return how the last run ended: `flwr run --stream` exits 0 whatever happened."""
        printed = self.flwr(["list", "local", "--limit", "1", "--format", "json"])
        return str(json.loads(printed[printed.index("{") :])["runs"][0]["status"])

    def end(self) -> None:
        """End the SuperLink that the first `flwr run` started and left, and all that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, number)

    def processes(self) -> list[int]:
        """Return the ids of the SuperLink and of all that it started."""
        mark, found = f"FLWR_HOME={self.home}\0".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is another's
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlower]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs Linux's /proc to end the SuperLink that Flower leaves running")
    flower = LocalFlower(tmp_path_factory.mktemp("flower"))
    try:
        flower.start()
        yield flower
    finally:
        flower.end()


@pytest.mark.slow
def test_the_superlink_that_is_left_ends_by_the_pages_commands(tmp_path: Path) -> None:
    flower = LocalFlower(tmp_path)
    try:
        flower.start()
        found = subprocess.run(LEFT, shell=True, capture_output=True, text=True).stdout
        port = flower.env["FLWR_LOCAL_SUPERLINK_HTTP_API_PORT"]
        (pid,) = [int(line.split()[0]) for line in found.splitlines() if f"--port {port} " in line]
        assert len(flower.processes()) > 1, "it starts others"
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + 60
        while flower.processes():
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        flower.end()


def as_written(out: Path, rounds: int) -> list[str]:
    """Return the page's command with fewer rounds, and another folder for its results."""
    arguments = shlex.split(FLOWER.replace("rounds=30", f'rounds={rounds} out="{out}"'))
    assert f"num-supernodes={PEOPLE}" in arguments and any("rounds=2" in a for a in arguments)
    return arguments


@pytest.mark.slow
def test_without_the_number_of_people_nobody_is_left_out_silently(
    flower: LocalFlower, tmp_path: Path
) -> None:
    arguments = as_written(tmp_path, 2)
    place = arguments.index("--federation-config")
    printed = flower.flwr(arguments[:place] + arguments[place + 2 :])
    assert flower.status() == "finished:failed", printed[-3000:]
    assert f"flwr run . --federation-config 'num-supernodes={PEOPLE}'" in printed
    assert not list(tmp_path.glob("flower-*/*/metrics.csv")), "a round was trained"


@pytest.mark.slow
def test_the_pages_command_trains_everybody_and_leaves_all_files(
    flower: LocalFlower, tmp_path: Path
) -> None:
    printed = flower.flwr(as_written(tmp_path, 2))
    assert flower.status() == "finished:completed", printed[-3000:]
    (folder,) = tmp_path.glob("flower-*")
    methods = read_config().methods
    summary = json.loads((folder / "summary.json").read_text())["methods"]
    assert list(summary) == list(methods) and (folder / "run.toml").is_file()
    for name in methods:
        assert (summary[name]["rounds"], summary[name]["clients"]) == (2, PEOPLE)
        assert len((folder / name / "metrics.csv").read_text().splitlines()) > 2 * PEOPLE * 5
        models = sorted((folder / name / "models").glob("*.safetensors"))
        assert [path.stem for path in models] == [f"{i + 1:02d}" for i in range(PEOPLE)]
        assert [load_model(path).client for path in models] == [path.stem for path in models]
        with RunDatabase(folder / name / "state.db") as database:
            assert database.last_round() == 2
        # The table stands in the log, one row a method.
        assert re.search(rf"^.*{name}\s+\w+\s+0\.\d+ ± 0\.\d+", printed, re.MULTILINE), printed[
            -3000:
        ]
