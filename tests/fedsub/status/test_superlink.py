"""What is said of a SuperLink: its nodes, its runs, and whether that is well."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from fedsub.status.facts import Verdict
from fedsub.status.superlink import LinkStatus, as_json, page, show, state_of
from fedsub_core.flower.control import LinkNode, LinkRun

NODE = LinkNode(7, "anna", "online", "2026-11-01T10:00:00+00:00", "", 12.0, 30.0)
RUN = LinkRun(5, "running", "", "2026-11-01T10:01:00+00:00", "", 2**20, 2**21)
ENDED = replace(RUN, run=4, status="finished:failed", details="no quorum")


def status(nodes: Sequence[LinkNode] = (NODE,), runs: Sequence[LinkRun] = (RUN,)) -> LinkStatus:
    return LinkStatus("fl.example.org:8000", nodes, runs)


def printed(of: LinkStatus) -> str:
    console = Console(width=200, record=True, file=None, quiet=False, no_color=True)
    with console.capture() as caught:
        show(console, of)
    return caught.get()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "connected"),
        ({"heard": 30.0}, "connected"),
        ({"heard": 31.0}, "late"),
        ({"heard": None}, "late"),
        ({"status": "offline", "heard": None}, "away"),
        ({"status": "registered", "heard": None}, "never"),
        ({"status": "unregistered", "heard": None}, "gone"),
    ],
)
def test_what_a_node_is(changes: dict[str, object], expected: str) -> None:
    assert state_of(replace(NODE, **changes)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "state", "verdict"),
    [
        ([RUN, ENDED], "going on", Verdict.WELL),
        ([replace(RUN, status="pending")], "going on", Verdict.WELL),
        ([replace(RUN, status="finished:completed"), ENDED], "finished", Verdict.WELL),
        ([ENDED, RUN], "stopped", Verdict.STOPPED),
        ([], "not begun", Verdict.STOPPED),
    ],
)
def test_the_newest_run_says_how_it_is(runs: list[LinkRun], state: str, verdict: Verdict) -> None:
    found = status(runs=runs)
    assert (found.state, found.verdict) == (state, verdict)


def test_who_is_not_heard_of_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        NODE,
        replace(NODE, node=8, name="ben", heard=40.0),
        replace(
            NODE, node=9, name="", status="offline", heard=None, deactivated="2026-11-01T11:00"
        ),
        replace(NODE, node=10, name="eve\n\x1b[2J", status="registered", heard=None),
        replace(NODE, node=11, name="gone", status="unregistered", heard=None),
    ]
    found = status(nodes)
    assert found.verdict is Verdict.TROUBLE
    assert found.troubles == [
        "ben: heartbeat is overdue",
        "node 9: not connected",
        "eve\n\x1b[2J: never connected",
    ]
    out = printed(found)
    assert "1 of 4 registered nodes are connected" in out and "12.0 s ago" in out
    assert r"! eve\n\x1b[2J: never connected" in out and "look at this (1)" in out
    assert all(c.isprintable() or c == "\n" for c in out)
    told = json.loads(as_json(found))
    assert [node["is"] for node in told["nodes"]] == ["connected", "late", "away", "never", "gone"]
    assert (told["verdict"], told["state"], told["troubles"]) == (
        "trouble",
        "going on",
        found.troubles,
    )


def test_runs_stand_below_with_their_bytes_and_why_one_ended() -> None:
    out = printed(status(runs=[ENDED, replace(RUN, run=3, status="finished:completed")]))
    assert "superlink fl.example.org:8000: stopped" in out and "1.0 MB" in out.replace("MiB", "MB")
    assert "! run 4 ended as finished:failed: no quorum" in out and "stopped (3)" in out


def test_a_page_of_a_terminal_says_the_same() -> None:
    console = Console(width=200, no_color=True)
    with console.capture() as caught:
        console.print(page(status()))
    assert caught.get().split() == printed(status()).split()
