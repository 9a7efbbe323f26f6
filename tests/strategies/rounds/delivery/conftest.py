"""A server over a link that follows a script, in place of a SuperLink."""

from typing import Any

import pytest
from flwr.supercore.task_identity import TaskIdentity

from strategies.rounds.clock import Clock

from ...waiting_clock import WaitingClock
from .scripted_link import POLL, Fate, ScriptedLink, Serve, Server


@pytest.fixture
def serve() -> Serve:
    """Make a server whose link follows a script: by node, what becomes of each message."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def make(
        script: dict[int, list[dict[str, Any]]] | None = None,
        poll: float = POLL,
        real_time: bool = False,
        **keys: Any,
    ) -> Server:
        clock = Clock() if real_time else WaitingClock()
        fates = {node: [Fate(**f) for f in listed] for node, listed in (script or {}).items()}
        return Server(ScriptedLink(clock, fates, **keys), poll)

    return make
