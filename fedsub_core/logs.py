"""How the programs of a deployment write their logs: no colour in files, JSON lines on request."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import IO, Any

from fedsub_core.errors import ConfigError

#: The environment variable that says it, and what it may say.
LOG_FORMAT = "FEDSUB_LOG"
TEXT, JSON = "text", "json"
#: Whose lines are written: FedSub's, and Flower's own.
LOGGERS = ("fedsub", "flwr")


class JsonLines(logging.Formatter):
    """One event a line.

    ``event`` is the text before its values are put in, which is the same for every event of a
    kind; ``values`` are what is put in, ``message`` is both together. Whatever a device sent, the
    line is one: JSON has no control character as such.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        values = record.args if isinstance(record.args, tuple) else (record.args,)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": str(record.msg),
            "values": [v if isinstance(v, int | str) else str(v) for v in values if v is not None],
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Stderr(logging.StreamHandler[IO[str]]):
    """Writes to what standard error is now: Flower puts its own in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_up_logs() -> None:
    """Have this process write its logs as the environment says; once more changes nothing.

    Raises ConfigError if the environment says neither ``text`` nor ``json``.
    """
    wanted = os.environ.get(LOG_FORMAT, TEXT)
    if wanted not in (TEXT, JSON):
        raise ConfigError(f"{LOG_FORMAT}: got {wanted!r}, expected {TEXT!r} or {JSON!r}")
    for logger in map(logging.getLogger, LOGGERS):
        if wanted == JSON:
            handler = _Stderr()
            handler.setFormatter(JsonLines())
            handler.setLevel(logging.INFO)
            logger.handlers, logger.propagate = [handler], False
            continue
        for kept in logger.handlers:
            # Flower's colours its levels, also in a file.
            if isinstance(kept, logging.StreamHandler) and not kept.stream.isatty():
                vars(kept).update({"colored": False} if hasattr(kept, "colored") else {})
