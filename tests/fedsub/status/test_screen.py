"""The page of a terminal: it fits, and what somebody should look at is never what is cut off."""

import socket
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from fedsub.cli import main
from fedsub.commands import status as command
from fedsub.status import reading
from fedsub.status.facts import Person, Status, Together, Trouble
from fedsub.status.shown import screen, show

from .made_deployments import make_deployment


def written(status: Status, height: int, width: int = 100) -> list[str]:
    """Return the lines of a terminal of this size."""
    console = Console(
        file=StringIO(), width=width, height=height, force_terminal=True, color_system=None
    )
    with console.capture() as captured:
        console.print(screen(console, status))
    return captured.get().splitlines()


@pytest.mark.parametrize("height", [12, 24, 60])
def test_those_to_look_at_come_first_and_what_does_not_fit_is_counted(height: int) -> None:
    people = [Person(f"p{i:02d}", "trained", version="0.1.0") for i in range(40)]
    people += [Person("zed", "silent", version="0.1.0 " * 30), Person("yan", "waited for")]
    status = Status(
        "x",
        "run",
        "going on",
        people=people,
        troubles=[Trouble("silent", "did not answer", ["zed"])],
    )
    found = written(status, height)
    assert len(found) <= height
    text = "\n".join(found)
    assert "! zed: did not answer" in text and "look at this (1)" in text
    names = [line.split()[0] for line in found if line.startswith((" p", " zed", " yan"))]
    assert names[0] == "zed" and names[1:2] in ([], ["yan"])
    assert (f"and {42 - len(names)} more people" in text) == (len(names) < 42)


def test_who_is_with_whom_and_worse_off_than_alone() -> None:
    people = [Person("ann", "trained", macro_f1=0.5, alone=0.6), Person("bob", "trained")]
    alike = [Together("", [["ann", "bob"]]), Together("walk", [["ann", "bob"], ["cyd", "dee"]])]
    out = StringIO()
    show(
        Console(file=out, width=200),
        Status("x", "run", "finished", twin="own heads", people=people, together=alike),
    )
    for line in ("alike: ann, bob", "alike in walk: ann, bob; cyd, dee",
                 "worse off than alone (own heads): 1 of 1 (ann)"):  # fmt: skip
        assert line in out.getvalue().splitlines(), line


def test_a_terminal_is_left_as_it_was_with_the_last_look_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: Iterator[int | None] = iter([1, 1, None])
    holder: Callable[[object], int | None] = lambda files: next(held)  # noqa: E731
    monkeypatch.setattr(reading, "holder", holder)
    monkeypatch.setattr(command, "EVERY", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    make_deployment(tmp_path / "run", live={}).close()
    found = CliRunner().invoke(command.status, [str(tmp_path / "run"), "--watch"])
    assert found.exit_code == 3, found.output
    page, last = found.output.split("\x1b[?1049l")
    assert page.startswith("\x1b[?1049h") and page.count("going on") == 2
    assert "stopped (3)" in last and last.count("ann") == 1


def test_ctrl_c_ends_the_watching_and_says_how_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reading, "holder", lambda files: 1)
    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=interrupted))
    monkeypatch.setenv("FORCE_COLOR", "1")
    make_deployment(tmp_path / "run", missing=("cyd",), live={}).close()
    found = CliRunner().invoke(command.status, [str(tmp_path / "run"), "--watch"])
    assert found.exit_code == 1, found.output
    assert "look at this (1)" in found.output.split("\x1b[?1049l")[1]


def test_what_cannot_be_told_is_a_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_deployment(tmp_path / "one", live={}).close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        for words, said in (
            ([str(tmp_path / "nowhere"), "--serve", "0"], "there is no such folder"),
            ([str(tmp_path)], "There are runs in it"),
            (["fl.example.org:/var/run", "--watch"], "ssh fl.example.org fedsub status /var/run"),
            ([str(tmp_path / "one"), "--serve", taken], f"127.0.0.1:{taken}: cannot listen there"),
            ([str(tmp_path / "one"), "--serve", "x"], "expected a port, or HOST:PORT"),
        ):
            monkeypatch.setattr("sys.argv", ["fedsub", "status", *words])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 2
            assert said in " ".join(capsys.readouterr().err.split()), words


@pytest.mark.parametrize(
    "options", [["--names"], ["--serve", "0", "--json"], ["--serve", "0", "--watch"]], ids=" ".join
)
def test_options_that_would_do_nothing_are_refused(tmp_path: Path, options: list[str]) -> None:
    found = CliRunner().invoke(command.status, [str(tmp_path), *options])
    assert found.exit_code == 2 and "expected" in found.output
