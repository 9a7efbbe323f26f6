"""Each process of a running deployment is killed in the middle of a round; nothing is lost.

One run meets all faults, one after another. So all that it leaves, on the server and on every
device, must be equal to the bit to what a run leaves that nothing happened to.
"""

import os
import re
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fedsub_core.errors import RunError

from .equal_runs import LOST, assert_equal, assert_equal_devices

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]
Deployment = Any  # of conftest.py
Undisturbed = tuple[dict[str, dict[str, Any]], dict[Any, float], Path]

ROUNDS = 5


def kill(*pids: int) -> None:
    (pid,) = pids
    os.kill(pid, signal.SIGKILL)


def faults(d: Deployment) -> Generator[None, None, None]:
    yield from d.until_round(1)
    with d.kept_at_work("p2"):
        yield from d.until(lambda: bool(d.at_work("p2")))
        kill(*d.at_work("p2"))
    yield from d.until_over("ClientApp")

    with d.kept_at_work("p1"):
        yield from d.until(lambda: bool(d.at_work("p1")))
        os.kill(d.pid("supernode-p1"), signal.SIGSTOP)
    # The device trains and saves, but its reply finds nobody.
    yield from d.until(lambda: d.saved("p1").round == 3)
    kill(d.pid("supernode-p1"))
    yield from d.until_over("SuperNode")

    with d.kept_at_work("p3"):
        yield from d.until(lambda: bool(d.at_work("p3")))
        kill(d.pid("superlink"))
    yield from d.until_over("SuperLink")

    with d.kept_at_work("p1"):
        yield from d.until(lambda: bool(d.at_work("p1")))
        # Another has done the round already, and will be asked for it again.
        yield from d.until(lambda: d.saved("p2").round == 5)
        kill(*d.apps("superlink-superexec", "flwr-serverapp"))
    yield from d.until_over("ServerApp")


@pytest.fixture(scope="module")
def survivor(deployment: Deployment, recoveries: None, quick_heartbeats: None) -> Deployment:
    """The deployment after a run that lost each of its processes once."""
    script = faults(deployment)
    with deployment.rehearsal.up():
        # Without its ServerApp the run has failed, and is started again as anybody would.
        with pytest.raises(RunError, match="the run ended as finished:failed"):
            deployment.play(script)
        assert deployment.finished == 4
        deployment.play(script)
    return deployment


@pytest.mark.parametrize(
    ("fault", "round"), [("ClientApp", 2), ("SuperNode", 3), ("SuperLink", 4), ("ServerApp", 5)]
)
def test_a_process_killed_costs_time_and_nothing_else(
    survivor: Deployment, undisturbed: Undisturbed, fault: str, round: int
) -> None:
    hit, seconds, before = survivor.recoveries[fault]
    assert hit == round and seconds < survivor.rehearsal.config.round_timeout
    after, (_, expected, _) = survivor.metrics(), undisturbed
    assert {key[0] for key in before} == set(range(1, round))
    assert {key: after[key] for key in before} == before, "finished rounds changed"
    ours, theirs = (
        {key: v for key, v in values.items() if key[0] == round and key[2] not in LOST}
        for values in (after, expected)
    )
    assert ours == theirs
    assert sum(key[2] == "loss" for key in ours) == 3


def test_only_what_was_lost_is_sent_again(survivor: Deployment) -> None:
    # While the SuperLink is away it may take any device for gone.
    # Who died is slow in that round, which says nothing of what was sent.
    lost = [metric for metric in LOST if metric != "slow_replies"]
    counted = {k[:3]: v for k, v in survivor.metrics().items() if k[2] in lost and k[0] != 4}
    assert counted == {(2, "p2", "messages_resent"): 1, (3, "p1", "messages_resent"): 1}


def test_a_round_is_trained_once(survivor: Deployment) -> None:
    again = {
        client: re.findall(
            rf"client {client}: round (\d) was done before; same answer",
            survivor.log(f"supernode-{client}-superexec"),
        )
        for client in ("p1", "p2")
    }
    assert "3" in again["p1"]
    # While the SuperLink is away, in round 4, it may take any device for gone.
    assert [round for round in again["p2"] if round != "4"] == ["5"]


def test_every_round_was_finished_once_and_the_last_state_is_equal(
    survivor: Deployment, undisturbed: Undisturbed
) -> None:
    assert survivor.rounds() == list(range(1, ROUNDS + 1))
    expected, _, models = undisturbed
    assert_equal(survivor.server(), expected["server"])
    assert_equal_devices(survivor, ROUNDS, expected, models)
