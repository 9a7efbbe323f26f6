"""A Grid that follows a script, in place of a SuperLink."""

import pytest
from flwr.supercore.task_identity import TaskIdentity

from ...waiting_clock import WaitingClock
from .scripted_grid import ScriptedGrid


@pytest.fixture
def grid() -> ScriptedGrid:
    """Return a Grid with two nodes, of anna and ben."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    return ScriptedGrid(WaitingClock(), {1: "anna", 2: "ben"})
