"""How a status is shown: for people in a terminal, for scripts as JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import repeat

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedsub.status.facts import DEPARTED, Person, Status, Verdict
from fedsub_server.run_folder import humanise_bytes

#: What stands where nobody knows anything.
NONE = "-"
_AT_EASE = ("trained", "idle", *DEPARTED)
#: What a line begins with that somebody should look at, whatever the terminal's colours.
_MARK = "! "
WORDS = {Verdict.WELL: "well", Verdict.TROUBLE: "look at this", Verdict.STOPPED: "stopped"}


def plain(text: object) -> str:
    """Return a text on one line, in which no character does anything to a terminal.

    Names, paths and reasons come from devices and files: a line's end, an escape sequence or a
    mark that turns the direction of writing is shown as Python writes it.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def as_json(status: Status) -> str:
    """Return a status as a JSON object, with ``verdict``, free of control characters."""
    whole = {"verdict": status.verdict.name.lower(), **asdict(status)}
    whole |= {"there": status.there, "expected": len(status.expected)}
    whole["troubles"] = [{**asdict(trouble), "text": trouble.text} for trouble in status.troubles]
    return json.dumps(whole, indent=1)


def show(console: Console, status: Status) -> None:
    """Print a status: what goes on, who takes part, and last what somebody should look at."""
    for line in lines(status):
        console.print(_line(line), soft_wrap=True)
    if status.people:
        console.print(_people(status.people))
    for line in (*_alike(status), *(f"  {part}" for part in status.parts)):
        console.print(_line(line), soft_wrap=True)
    for said in _looks(status):
        console.print(said, soft_wrap=True)


def screen(console: Console, status: Status) -> RenderableType:
    """Return a status as a page of the terminal's size.

    What somebody should look at stands above the people, of whom those to look at come first: what
    does not fit is who is well.
    """
    above = Group(*map(_line, lines(status)), *_looks(status))
    if not status.people:
        return Group(above, *(_line(f"  {part}") for part in status.parts))
    left = console.height - len(console.render_lines(above)) - 2
    people = by_urgency(status.people)
    shown = people[: max(left, 1)]
    while len(shown) > 1 and len(console.render_lines(_people(shown))) > left:
        shown = shown[:-1]
    more = len(people) - len(shown)
    return Group(above, _people(shown), _line(f"and {more} more people" if more else ""))


def by_urgency(people: Iterable[Person]) -> list[Person]:
    """Return people in order: with trouble, waited for, everybody else."""
    return sorted(people, key=lambda p: 2 if p.state in _AT_EASE else int(is_well(p)))


def is_well(person: Person) -> bool:
    """Whether nobody need look at a person."""
    return person.state in (*_AT_EASE, "waited for")


def endings(troubles: Iterable[str], verdict: Verdict) -> Iterator[Text]:
    """Yield the last lines of what is shown: troubles, and the verdict."""
    for text in troubles:
        yield Text(f"{_MARK}{plain(text)}", style="yellow")
    style = "green" if verdict is Verdict.WELL else "yellow"
    yield Text(f"{WORDS[verdict]} ({verdict.value})", style=style)


def _looks(status: Status) -> Iterator[Text]:
    return endings((trouble.text for trouble in status.troubles), status.verdict)


def _line(text: str) -> Text:
    return Text(plain(text))


def _alike(status: Status) -> Iterator[str]:
    """Yield who is with whom, a line for each class or for all."""
    for one in status.together:
        what = f"alike in {one.of}" if one.of else "alike"
        yield f"{what}: {'; '.join(', '.join(group) for group in one.groups)}"


def lines(status: Status) -> Iterator[str]:
    """Yield the head of what is shown."""
    what = "runs" if status.kind == "study" else "rounds"
    where = f", on {status.host}" if status.state == "elsewhere" else ""
    yield f"{status.kind} {status.path}: {status.state}{where}"
    yield from status.service
    method = ""
    if status.method:
        place = f", {', '.join(status.methods)}" if len(status.methods) > 1 else ""
        method = f"{status.method}{f' (of{place[1:]})' if place else ''}: "
    left = "" if status.seconds_left is None else f", about {span(status.seconds_left)} left"
    if status.rounds:
        done = f"{status.finished} of {status.rounds} {what} done"
        yield f"{method}{done} in {span(status.seconds)}{left}"
    if status.phase:
        limit = "" if status.limit is None else f" (at most {span(status.limit)})"
        yield f"now: round {status.round}, {status.phase} for {span(status.phase_seconds)}{limit}"
        if status.asked:
            who = ", ".join(status.waited_for) or "nobody"
            yield f"asked {len(status.asked)}, waits for {who}"
    if status.phase and any(person.node is not None for person in status.people):
        yield f"{status.there} of {len(status.expected)} people are there"
    if status.bytes_up is not None or status.bytes_down is not None:
        up, down = (humanise_bytes(n or 0) for n in (status.bytes_up, status.bytes_down))
        yield f"last round: {up} up, {down} down"
    facts = [(status.memory, "memory of the server's process"), (status.disk_free, "of disk free")]
    said = [f"{humanise_bytes(number)} {what}" for number, what in facts if number is not None]
    if status.certificate_days is not None:
        said.append(f"certificate for {status.certificate_days:.0f} days")
    if said:
        yield ", ".join(said)
    if status.compared:
        worse = status.worse_than_alone
        yield (
            f"worse off than alone ({status.twin}): {len(worse)} of {status.compared}"
            + (f" ({', '.join(worse)})" if worse else "")
        )


def filled_columns(people: Sequence[Person]) -> Mapping[str, list[str]]:
    """Return everybody's cells by title, without columns of which nobody knows anything."""
    cells = {title: [cell(one) for one in people] for title, cell in _COLUMNS.items()}
    return {title: column for title, column in cells.items() if set(column) != {NONE}}


def _people(people: Sequence[Person]) -> Table:
    """Return a table of these people."""
    kept = filled_columns(people)
    styles = ["" if is_well(person) else "yellow" for person in people]
    return table(kept, zip(*kept.values(), strict=True), styles)


def table(
    titles: Iterable[str], rows: Iterable[Sequence[str]], styles: Iterable[str] = repeat("")
) -> Table:
    """Return a table of a terminal, each row in its style."""
    made = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in titles:
        made.add_column(title, overflow="fold")
    for row, style in zip(rows, styles, strict=False):
        made.add_row(*(Text(plain(cell)) for cell in row), style=style)
    return made


def _or_none(value: object) -> str:
    return NONE if value is None else str(value)


def moment(said: str | None) -> str:
    """Return a time that Flower wrote to the second, in UTC where it says which."""
    with suppress(ValueError):
        when = datetime.fromisoformat(said or "")
        return (when.astimezone(UTC) if when.tzinfo else when).strftime("%Y-%m-%d %H:%M:%S")
    return _or_none(said)


def _number(value: float | None, spec: str) -> str:
    return NONE if value is None else format(value, spec)


def span(seconds: float | None) -> str:
    """Return a time in words: seconds below a minute, hours, minutes and seconds above."""
    if seconds is None:
        return NONE
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _bytes(number: float | None) -> str:
    return NONE if number is None else humanise_bytes(number)


def _alone(person: Person) -> str:
    return _number(person.alone, ".3f") + (" better" if person.worse_than_alone else "")


#: What is said of a person.
_COLUMNS: Mapping[str, Callable[[Person], str]] = {
    "client": lambda p: p.client,
    "is": lambda p: p.state,
    "node": lambda p: _or_none(p.node),
    "since": lambda p: moment(p.since),
    "version": lambda p: _or_none(p.version),
    "cap.": lambda p: _number(p.capacity, "g"),
    "last used": lambda p: _or_none(p.usable),
    "silent": lambda p: str(p.failed or NONE),
    "refused": lambda p: str(p.refused or NONE),
    "why": lambda p: _or_none(p.why),
    "asked again in": lambda p: _or_none(p.rests_until),
    "took s": lambda p: _number(p.seconds, ".1f"),
    "up": lambda p: _bytes(p.bytes_up),
    "down": lambda p: _bytes(p.bytes_down),
    "macro F1": lambda p: _number(p.macro_f1, ".3f"),
    "MAE": lambda p: _number(p.mae, ".3f"),
    "alone": _alone,
}
