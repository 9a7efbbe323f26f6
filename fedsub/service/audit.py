"""The audit log of a service: who did what and when, refused acts too; lines are only added.

Each line's seal is a digest of the line and of the seal before it, so a line that was changed or
taken out breaks the chain.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any

from fedsub.service.state import ServiceFile
from fedsub_core.errors import cut

DONE = "done"


@dataclass(frozen=True)
class Act:
    """A line of the log; `outcome` is "done", or why the act was refused."""

    at: str
    who: str
    role: str
    act: str
    arguments: str
    outcome: str


def note_act(
    file: ServiceFile, who: str, role: str, act: str, arguments: Mapping[str, Any], outcome: str
) -> None:
    """Add a line to the log, in the transaction that goes on."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    said = cut(json.dumps(dict(arguments), sort_keys=True, default=str))
    line = Act(at, cut(who), role, cut(act), said, cut(outcome))
    last = file.connection.execute("select seal from acts order by number desc limit 1").fetchone()
    columns = "at, who, role, act, arguments, outcome, seal"
    file.connection.execute(
        f"insert into acts ({columns}) values (?, ?, ?, ?, ?, ?, ?)",
        (*astuple(line), _seal(line, last[0] if last else "")),
    )


def acts_of(file: ServiceFile) -> tuple[list[Act], int | None]:
    """Return the log's lines, and the number of the first whose seal does not fit; None: all do."""
    query = "select number, at, who, role, act, arguments, outcome, seal from acts order by number"
    lines, before, broken = [], "", None
    for expected, (number, *texts, seal) in enumerate(file.connection.execute(query), 1):
        line = Act(*texts)
        if broken is None and (number != expected or seal != _seal(line, before)):
            broken = expected
        lines.append(line)
        before = seal
    return lines, broken


def _seal(line: Act, before: str) -> str:
    return hashlib.sha256(json.dumps([before, *astuple(line)]).encode()).hexdigest()
