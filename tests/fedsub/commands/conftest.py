"""The command line, as a shell calls it."""

import sys
from pathlib import Path

import pytest

from fedsub.cli import main

from .calls import Call


@pytest.fixture
def fedsub(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Call:
    """Call the command as a shell would, in an empty folder; return code, stdout, stderr.

    Runs draw no report, which takes longer than they do, unless they are called with --report.
    """
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> tuple[int, str, str]:
        drawn = args[0] != "run" or "--report" in args
        more = () if drawn else ("--no-report",)
        monkeypatch.setattr(sys, "argv", ["fedsub", *map(str, args), *more])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return call
