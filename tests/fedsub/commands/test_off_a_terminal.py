"""Off a terminal, lines tell how far things are; interrupted, they say which command goes on."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from fedsub.commands.progress import Cell, Lines, draws_bars, in_words
from fedsub.deploy.signals import Interrupted
from fedsub.studies.runner import Stage

from ..studies.interrupting import started
from .calls import Call

FEDSUB = str(Path(sys.executable).with_name("fedsub"))
STUDY = """
title = "Small"
about = "Of two runs."
seeds = [0]
[run]
data = "{data}"
rounds = 150
checkpoint-seconds = 0.1
[methods]
local = {{}}
fedavg = {{}}
"""


def test_a_line_as_it_begins_every_few_seconds_and_as_it_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(iter((0.0, 2.0, 6.0, 8.0, 10.0, 11.2, 70.0)).__next__)
    for name, done in (("a", 10), ("a", 15), ("a", 20), ("a", 35), ("a", 40), ("b", 0), ("b", 40)):
        lines.tell(name, done, 40, f"{done} of 40 rounds")
    assert capsys.readouterr().out.splitlines() == [
        "a: 10 of 40 rounds",
        # Ten rounds took 6 seconds; those of before are not counted.
        "a: 20 of 40 rounds, 0:00:12 left",
        "a: 40 of 40 rounds, after 0:00:10",
        "b: 0 of 40 rounds",
        "b: 40 of 40 rounds, after 0:00:59",
    ]


def test_an_end_that_is_told_again_and_again_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(iter((0.0, 9.0, 20.0, 200.0, 300.0, 310.0)).__next__)
    for done in (0, 2, 2, 2, 0, 2):
        lines.tell("a", done, 2, f"{done} of 2 rounds")
    assert capsys.readouterr().out.splitlines() == [
        "a: 0 of 2 rounds",
        "a: 2 of 2 rounds, after 0:00:09",
        "a: 0 of 2 rounds",  # begun anew, and told as it is late
    ]


def test_bars_below_a_notebooks_cell_are_drawn_in_place() -> None:
    drawn: list[str] = []
    shown = SimpleNamespace(update=lambda cell: drawn.append(repr(cell)))

    def display(cell: Cell, display_id: bool) -> object:
        assert display_id and not drawn
        shown.update(cell)
        return shown

    cell = Cell(display, iter((0.0, 0.1, 1.0, 1.1, 1.15, 2.0)).__next__)
    for name, done in (("a", 0), ("a", 1), ("a", 10), ("<b>", 0), ("a", 11), ("a", 40)):
        cell.tell(name, done, 40, f"{done} of 40 rounds")
    assert drawn == [
        "a: 0 of 40 rounds",
        # Not so soon after the first.
        "a: 10 of 40 rounds, 0:00:03 left",
        "a: 10 of 40 rounds, 0:00:03 left\n<b>: 0 of 40 rounds",
        "a: 40 of 40 rounds, after 0:00:02\n<b>: 0 of 40 rounds",
    ]
    assert "&lt;b&gt;" in cell._repr_html_() and "value='40' max='40'" in cell._repr_html_()


def test_a_study_says_which_runs_are_trained() -> None:
    now = {f"run{i}": (i, 60) for i in range(1, 7)}
    assert in_words(Stage("runs", 3, 24, 30.0, 120.0, dict(list(now.items())[:2]))) == (
        "3 of 24 runs ended (run1 round 1 of 60, run2 round 2 of 60), 25%"
    )
    assert "run4 round 4 of 60, and 2 more)" in in_words(Stage("runs", 3, 24, 3, 12, now))


def test_bars_are_for_terminals_that_can_move_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, inner = pty.openpty()
    with os.fdopen(inner, "w") as terminal, (tmp_path / "log").open("w") as log:
        monkeypatch.setenv("TERM", "xterm")
        assert draws_bars(Console(file=terminal)) and not draws_bars(Console(file=log))
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert not draws_bars(Console(file=log))
        monkeypatch.setenv("TERM", "dumb")
        assert not draws_bars(Console(file=terminal))
    os.close(outer)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that does not find this `fedsub`, whatever environment the tests are called in."""
    monkeypatch.setenv("PATH", os.defpath)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.slow
def test_an_interrupted_run_goes_on_by_the_line_that_it_ends_with(town_folder: Path) -> None:
    options = "--rounds 150 --beside= --method local --no-report --checkpoint-seconds 0.1"
    command = [FEDSUB, "run", "--data", str(town_folder), *options.split()]
    command += ["--out", str(town_folder.parent / "many runs")]
    with started(command) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "local: 0 of 150 rounds\n", "told at once, through a pipe"
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=60)
    (folder,) = (town_folder.parent / "many runs").iterdir()
    line = shlex.join([FEDSUB, "run", "--resume", str(folder), "--no-report"])
    assert run.returncode == 128 + signal.SIGTERM and out == ""
    assert err.splitlines() == ["Interrupted by SIGTERM. This goes on:", line]
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    last = r"^local: 150 of 150 rounds, after 0:00:\d\d$"
    assert re.search(last, done.stdout, re.MULTILINE), done.stdout
    assert not set("\r\x1b") & set(err + done.stderr + done.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
def test_an_interrupted_study_goes_on_by_the_line_that_it_ends_with(town_folder: Path) -> None:
    file, out = town_folder.parent / "two runs.toml", town_folder.parent / "out"
    file.write_text(STUDY.format(data=town_folder))
    command = [FEDSUB, "compare", str(file), "--out", str(out), "--jobs", "1"]
    with started(command) as study:
        assert study.stdout is not None
        assert study.stdout.readline() == "runs: 0 of 2 runs ended, 0%\n"
        study.send_signal(signal.SIGINT)
        _, err = study.communicate(timeout=60)
    assert study.returncode == 128 + signal.SIGINT
    line = shlex.join(command)
    assert err.splitlines() == ["Interrupted by SIGINT. This goes on:", line]
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    last = r"^runs: 2 of 2 runs ended, 100%, after 0:00:\d\d$"
    assert re.search(last, done.stdout, re.MULTILINE), done.stdout
    assert not set("\r\x1b") & set(err + done.stderr + done.stdout)


@pytest.mark.parametrize(
    ("number", "raised"), [(2, KeyboardInterrupt()), (15, Interrupted(signal.SIGTERM))]
)
def test_any_other_command_ends_with_the_line_that_begins_it_again(
    fedsub: Call, monkeypatch: pytest.MonkeyPatch, number: int, raised: KeyboardInterrupt
) -> None:
    def stop(name: str) -> None:
        raise raised

    monkeypatch.setattr("fedsub_data.catalogue.catalogue.read_dataset_card", stop)
    monkeypatch.setattr("shutil.which", lambda program: None)
    code, out, err = fedsub("data", "show", "two words")
    assert (code, out) == (128 + number, "")
    assert err.splitlines() == [
        f"Interrupted by {signal.Signals(number).name}. Nothing unfinished is left on the "
        "disk. To start again:",
        "fedsub data show 'two words'",
    ]
