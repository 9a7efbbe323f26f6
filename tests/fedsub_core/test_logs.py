"""Logs: one JSON object a line whatever is in it, and no colour where nobody sees any."""

import json
import logging
from collections.abc import Iterator

import pytest
from flwr.common.logger import ConsoleHandler

from fedsub_core.errors import ConfigError
from fedsub_core.logs import LOG_FORMAT, LOGGERS, set_up_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.parametrize("name", LOGGERS)
def test_one_event_a_line_whatever_a_device_sent(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(LOG_FORMAT, "json")
    set_up_logs()
    set_up_logs()  # once more writes no line twice
    evil = "head:\ngot \x1b[2J \u202e"
    logging.getLogger(name).warning("round %d, client %s: refused: %s", 3, "anna", evil)
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found["event"] == "round %d, client %s: refused: %s"
    assert found["values"] == [3, "anna", evil] and found["level"] == "warning"
    assert found["message"] == f"round 3, client anna: refused: {evil}"
    assert found["logger"] == name and found["time"].endswith("+00:00")
    assert all(32 <= ord(c) < 127 for c in line)


def test_what_went_wrong_stands_in_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(LOG_FORMAT, "json")
    set_up_logs()
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("fedsub").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: no" in json.loads(line)["error"]


def test_no_colour_where_it_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("flwr")
    logger.handlers, logger.propagate = [ConsoleHandler()], False
    logger.warning("coloured")
    assert "\x1b" in capsys.readouterr().err
    set_up_logs()
    logger.warning("plain")
    said = capsys.readouterr().err
    assert "plain" in said and "\x1b" not in said


def test_what_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG_FORMAT, "xml")
    with pytest.raises(ConfigError, match="got 'xml', expected 'text' or 'json'"):
        set_up_logs()
