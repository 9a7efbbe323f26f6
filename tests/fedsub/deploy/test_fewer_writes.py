"""A SuperLink looks for overdue tasks, and writes the bytes of runs, once a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fedsub.deploy.fewer_writes import ADD, EVERY_SECONDS, LOOK, Seldom, write_seldom
from fedsub_core.errors import RunError
from fedsub_core.flower.superlink import link_state

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


class Flower:
    """What Flower does, noted."""

    def __init__(self) -> None:
        self.looks, self.now = 0, 0.0
        self.runs = {7: [0, 0], 8: [0, 0]}

    def look(self, state: Any) -> None:
        self.looks += 1

    def add(self, state: Any, run: int, *, bytes_sent: int, bytes_recv: int) -> None:
        if min(bytes_sent, bytes_recv) < 0 or not (bytes_sent or bytes_recv):
            raise ValueError("no bytes")
        if run not in self.runs:
            raise ValueError("no such run")
        self.runs[run][0] += bytes_sent
        self.runs[run][1] += bytes_recv


@pytest.fixture
def flower() -> Flower:
    return Flower()


@pytest.fixture
def seldom(flower: Flower) -> Seldom:
    return Seldom(flower.look, flower.add, lambda: flower.now)


def test_it_looks_at_once_and_then_once_a_second(flower: Flower, seldom: Seldom) -> None:
    for expected, now in ((1, 0.0), (1, 0.9), (2, 1.0), (2, 1.99), (3, 5.0)):
        flower.now = now * EVERY_SECONDS
        seldom.look(None)
        assert flower.looks == expected


def test_bytes_are_added_up_and_written_with_the_next_look(flower: Flower, seldom: Seldom) -> None:
    seldom.look(None)
    seldom.add(None, 7, bytes_sent=5, bytes_recv=0)
    seldom.add(None, 7, bytes_sent=1, bytes_recv=2)
    seldom.add(None, 8, bytes_sent=0, bytes_recv=9)
    seldom.look(None)
    assert flower.runs == {7: [0, 0], 8: [0, 0]}
    for _ in range(2):  # and only once
        flower.now += EVERY_SECONDS
        seldom.look(None)
        assert flower.runs == {7: [6, 2], 8: [0, 9]}


def test_a_run_that_is_gone_keeps_no_other_from_its_bytes(flower: Flower, seldom: Seldom) -> None:
    for run in (6, 7):
        seldom.add(None, run, bytes_sent=3, bytes_recv=4)
    seldom.look(None)
    assert flower.runs[7] == [3, 4]


@pytest.mark.parametrize(("sent", "received"), [(0, 0), (-1, 5), (5, -1)])
def test_what_flower_refuses_is_refused_at_once(seldom: Seldom, sent: int, received: int) -> None:
    with pytest.raises(ValueError, match="no bytes"):
        seldom.add(None, 7, bytes_sent=sent, bytes_recv=received)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Any]:
    """Make a SuperLink's state; what is replaced there is put back."""
    for name in (LOOK, ADD):
        monkeypatch.setattr(SqlLinkState, name, getattr(SqlLinkState, name))
    database, federations = str(tmp_path / "link.db"), NoOpFederationManager()
    return LinkStateFactory(database, federations, ObjectStoreFactory(database)).state


def test_flowers_own_state_writes_so(
    state: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[str]()
    monkeypatch.setattr(SqlLinkState, LOOK, lambda self: written.append("look"))
    monkeypatch.setattr(SqlLinkState, ADD, lambda self, run, **of: written.append(f"{run} {of}"))
    write_seldom()
    link = state()
    link.store_traffic(5, bytes_sent=1, bytes_recv=0)
    for _ in range(3):
        assert link.get_run_status({5}) == {}
    assert written == ["look", "5 {'bytes_sent': 1, 'bytes_recv': 0}"]


def test_its_own_look_still_runs(state: Callable[[], Any]) -> None:
    write_seldom()
    assert state().get_run_status(set()) == {}


def test_a_flower_without_them_is_refused() -> None:
    with pytest.raises(RunError, match=r"SqlLinkState has no nothing to replace; expected flwr 1"):
        link_state(LOOK, "nothing")
