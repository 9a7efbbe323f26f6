"""A Grid that follows a script, in place of a SuperLink."""

from __future__ import annotations

import pytest
from flwr.supercore.task_identity import TaskIdentity

from strategies.rounds import handshake, nodes

from .scripted_grid import Clock, ScriptedGrid


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> ScriptedGrid:
    """Return a Grid with two nodes, of anna and ben."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    clock = Clock()
    monkeypatch.setattr(nodes, "time", clock)
    monkeypatch.setattr(handshake, "time", clock)
    return ScriptedGrid(clock, {1: "anna", 2: "ben"})
