"""How a status is shown: for people in a terminal, for scripts as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsub.status.facts import Person, Status, Verdict
from fedsub_server.results import humanise_bytes

_NONE = "-"
#: What a line begins with that somebody should look at, whatever the terminal's colours.
_MARK = "! "
_WORDS = {Verdict.WELL: "well", Verdict.TROUBLE: "look at this", Verdict.STOPPED: "stopped"}


def plain(text: object) -> str:
    """Return a text on one line, in which no character does anything to a terminal.

    Names, paths and reasons come from devices and files: a line's end, an escape sequence or a
    mark that turns the direction of writing is shown as Python writes it.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def as_json(status: Status) -> str:
    """Return it as one JSON object, with ``verdict``; in it no control character stands as such."""
    return json.dumps({"verdict": status.verdict.name.lower(), **asdict(status)}, indent=1)


def show(console: Console, status: Status) -> None:
    """Print a status: what goes on, who takes part, and last what somebody should look at."""
    for line in lines(status):
        console.print(Text(plain(line)), soft_wrap=True)
    if status.people:
        console.print(_people(status))
    for part in status.parts:
        console.print(Text(f"  {plain(part)}"), soft_wrap=True)
    for said in status.troubles:
        console.print(Text(f"{_MARK}{plain(said.text)}", style="yellow"), soft_wrap=True)
    style = "green" if status.verdict is Verdict.WELL else "yellow"
    console.print(Text(f"{_WORDS[status.verdict]} ({status.verdict.value})", style=style))


def lines(status: Status) -> Iterator[str]:
    """Yield the head of what is shown."""
    what = "runs" if status.kind == "study" else "rounds"
    where = f", on {status.host}" if status.state == "elsewhere" else ""
    yield f"{status.kind} {status.path}: {status.state}{where}"
    method = ""
    if status.method:
        place = f", {', '.join(status.methods)}" if len(status.methods) > 1 else ""
        method = f"{status.method}{f' (of{place[1:]})' if place else ''}: "
    left = "" if status.seconds_left is None else f", about {_span(status.seconds_left)} left"
    yield (
        f"{method}{status.finished} of {status.rounds} {what} done in {_span(status.seconds)}{left}"
    )
    if status.phase:
        limit = "" if status.limit is None else f" (at most {_span(status.limit)})"
        yield f"now: round {status.round}, {status.phase} for {_span(status.phase_seconds)}{limit}"
        if status.asked:
            who = ", ".join(status.waited_for) or "nobody"
            yield f"asked {len(status.asked)}, waits for {who}"
    if status.bytes_up is not None or status.bytes_down is not None:
        up, down = (humanise_bytes(n or 0) for n in (status.bytes_up, status.bytes_down))
        yield f"last round: {up} up, {down} down"
    facts = [
        (status.memory, "memory of the server's process"),
        (status.disk_free, "of disk free"),
    ]
    said = [f"{humanise_bytes(number)} {what}" for number, what in facts if number is not None]
    if status.certificate_days is not None:
        said.append(f"certificate for {status.certificate_days:.0f} days")
    if said:
        yield ", ".join(said)


def _people(status: Status) -> Table:
    """Return a table of everybody; columns of which nobody knows anything are left out."""
    columns: dict[str, Callable[[Person], str]] = {
        "client": lambda p: p.client,
        "is": lambda p: p.state,
        "node": lambda p: _or_none(p.node),
        "since": lambda p: _or_none(p.since),
        "version": lambda p: _or_none(p.version),
        "cap.": lambda p: _number(p.capacity, "g"),
        "last used": lambda p: _or_none(p.usable),
        "silent": lambda p: str(p.failed or _NONE),
        "refused": lambda p: str(p.refused or _NONE),
        "why": lambda p: _or_none(p.why),
        "asked again in": lambda p: _or_none(p.rests_until),
        "took s": lambda p: _number(p.seconds, ".1f"),
        "up": lambda p: _NONE if p.bytes_up is None else humanise_bytes(p.bytes_up),
        "down": lambda p: _NONE if p.bytes_down is None else humanise_bytes(p.bytes_down),
        "macro F1": lambda p: _number(p.macro_f1, ".3f"),
    }
    cells = {title: [cell(one) for one in status.people] for title, cell in columns.items()}
    kept = {title: column for title, column in cells.items() if set(column) != {_NONE}}
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in kept:
        table.add_column(title, overflow="fold")
    for person, row in zip(status.people, zip(*kept.values(), strict=True), strict=True):
        table.add_row(*(Text(plain(cell)) for cell in row), style=_style(person))
    return table


def _style(person: Person) -> str:
    return "" if person.state in ("trained", "idle", "waited for") else "yellow"


def _or_none(value: object) -> str:
    return _NONE if value is None else str(value)


def _number(value: float | None, spec: str) -> str:
    return _NONE if value is None else format(value, spec)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return _NONE
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
