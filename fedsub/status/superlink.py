"""How a SuperLink is doing, asked at its port for runs: its nodes and its runs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console, Group, RenderableType
from rich.text import Text

from fedsub.status.facts import Verdict
from fedsub.status.shown import NONE, endings, moment, plain, span, table
from fedsub_core.flower.control import LinkNode, LinkRun, ask_superlink
from fedsub_server.run_folder import humanise_bytes

COMPLETED = "finished:completed"


@dataclass(frozen=True)
class LinkStatus:
    """How a SuperLink is doing.

    Parameters
    ----------
    address : host and port at which it was asked.
    nodes : all that are registered, by name.
    runs : the newest, these first.
    """

    address: str
    nodes: Sequence[LinkNode]
    runs: Sequence[LinkRun]

    @property
    def state(self) -> str:
        """Of its newest run: ``going on``, ``finished`` or ``stopped``; ``not begun``: no run."""
        if not self.runs:
            return "not begun"
        status = self.runs[0].status
        if not status.startswith("finished"):
            return "going on"
        return "finished" if status == COMPLETED else "stopped"

    @property
    def troubles(self) -> list[str]:
        """What somebody should look at; names are the SuperLink's, texts a run's."""
        found = []
        if self.state == "stopped":
            run = self.runs[0]
            why = f": {run.details}" if run.details else ""
            found.append(f"run {run.run} ended as {run.status}{why}")
        said = {"late": "heartbeat is overdue", "away": "not connected", "never": "never connected"}
        for state, what in said.items():
            if names := [_name(node) for node in self.nodes if state_of(node) == state]:
                found.append(f"{', '.join(names)}: {what}")
        return found

    @property
    def verdict(self) -> Verdict:
        """Whether it is well."""
        if self.state in ("stopped", "not begun"):
            return Verdict.STOPPED
        return Verdict.TROUBLE if self.troubles else Verdict.WELL


def state_of(node: LinkNode) -> str:
    """Return ``connected``, ``late`` (a heartbeat is overdue), ``away``, ``never``, or ``gone``.

    ``gone``: its key was unregistered.
    """
    if node.status == "online":
        return "connected" if node.heard is not None and node.heard <= node.every else "late"
    return {"registered": "never", "unregistered": "gone"}.get(node.status, "away")


def read_superlink(address: str, ca: bytes | None) -> LinkStatus:
    """Ask a SuperLink; raises as :func:`~fedsub_core.flower.control.ask_superlink`."""
    return LinkStatus(address, *ask_superlink(address, ca))


def as_json(status: LinkStatus) -> str:
    """Return a status as a JSON object, with ``verdict``, ``state`` and ``troubles``."""
    whole = {"verdict": status.verdict.name.lower(), "state": status.state, **asdict(status)}
    whole["nodes"] = [{"is": state_of(node), **asdict(node)} for node in status.nodes]
    return json.dumps({**whole, "troubles": status.troubles}, indent=1)


def page(status: LinkStatus) -> RenderableType:
    """Return a status as a page of a terminal."""
    return Group(*_parts(status))


def show(console: Console, status: LinkStatus) -> None:
    """Print a status."""
    for part in _parts(status):
        console.print(part, soft_wrap=isinstance(part, Text))


def _parts(status: LinkStatus) -> Iterator[RenderableType]:
    heard = sum(state_of(node) == "connected" for node in status.nodes)
    there = sum(state_of(node) != "gone" for node in status.nodes)
    yield Text(plain(f"superlink {status.address}: {status.state}"))
    yield Text(f"{heard} of {there} registered nodes are connected")
    if status.nodes:
        yield table(("name", "is", "last heard", "since", "node"), map(_node_row, status.nodes))
    if status.runs:
        yield table(("run", "is", "submitted", "ended", "up", "down"), map(_run_row, status.runs))
    yield from endings(status.troubles, status.verdict)


def _node_row(node: LinkNode) -> tuple[str, ...]:
    heard = NONE if node.heard is None else f"{span(max(node.heard, 0.0))} ago"
    since = node.activated if node.status == "online" else node.deactivated
    return _name(node), state_of(node), heard, moment(since or None), str(node.node)


def _run_row(run: LinkRun) -> tuple[str, ...]:
    times = (moment(said or None) for said in (run.submitted, run.finished))
    sizes = (humanise_bytes(size) for size in (run.bytes_up, run.bytes_down))
    return str(run.run), run.status, *times, *sizes


def _name(node: LinkNode) -> str:
    return node.name or f"node {node.node}"
