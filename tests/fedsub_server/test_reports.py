"""What is said where a report at the end of a run cannot be had; the run does not mind."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fedsub_server import reports

Said = Callable[..., list[str]]


def good(folder: Path) -> Path:
    return folder / "good.html"


def bad(folder: Path) -> Path:
    raise ValueError("no numbers")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Said:
    """Write reports of these names; return what was logged."""

    def write(**points: str) -> list[str]:
        found = [EntryPoint(name, value, reports.GROUP) for name, value in points.items()]
        monkeypatch.setattr(reports, "entry_points", lambda group: EntryPoints(found))
        reports.write_reports(Path("/a/run"))
        return caplog.messages

    return write


def test_one_that_fails_is_named_and_the_others_are_written(said: Said) -> None:
    here = __name__
    messages = said(lacking="no_such_package.report:write", bad=f"{here}:bad", good=f"{here}:good")
    assert "No module named 'no_such_package'" in messages[0]
    assert messages[1].startswith("bad: not written (ValueError: no numbers); `fedsub report /a/")
    assert messages[2] == "good: /a/run/good.html"


def test_where_none_is_installed_it_says_how_to_make_one(said: Said) -> None:
    (message,) = said()
    assert message.startswith("report: `fedsub report /a/run` writes it where fedsub[run]")
