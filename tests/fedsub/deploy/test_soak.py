"""Processes of a deployment are killed at random moments, several at once; nothing is lost.

``FEDSUB_SOAK=5`` makes it five times as long; ``FEDSUB_SOAK_SEED=1`` draws other kills.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy.components import HOST
from fedsub.deploy.flower_app import write_app
from fedsub.deploy.flower_process import is_healthy
from fedsub.deploy.processes import MOST_RESTARTS, WELL_SECONDS, Child
from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.errors import RunError
from fedsub_server.rundb import RunDatabase
from strategies.rounds.outbox import CRASHES

from .equal_runs import LOST, assert_equal, assert_equal_devices, metrics_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.release,
    pytest.mark.usefixtures("quick_heartbeats"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]
Deployment = Any  # of conftest.py
State = dict[str, dict[str, Any]]

TIMES = int(os.environ.get("FEDSUB_SOAK", "1"))
SEED = int(os.environ.get("FEDSUB_SOAK_SEED", "0"))
ROUNDS = 3 * TIMES
#: Mean seconds between two kills: less than it takes to come back from one.
PAUSE = 2.5
#: How many of each are killed, times TIMES; seven in all.
KILLS = {
    "ClientApp": 1,
    "warm process": 1,
    "SuperExec of a device": 1,
    "SuperNode": 1,
    "SuperLink": 1,
    "ServerApp": 1,
    "SuperExec of the server": 1,
}
#: Without its ServerApp a run has failed; it dies with its SuperExec, and counts as dead if the
#: SuperLink was away for long.
FATAL = {"ServerApp", "SuperExec of the server", "SuperLink"}
#: With it dies an app that works on a message; a SuperNode's death is not held against the app.
CRASHING = {"ClientApp", "SuperExec of a device"}


@dataclass
class Soak:
    """A deployment whose processes are killed, and what was seen of it.

    Parameters
    ----------
    left : kinds of processes yet to be killed, in this order; `killed` were.
    states : the server's, by round.
    """

    deployment: Deployment
    stream: random.Random
    left: list[str]
    killed: list[str] = field(default_factory=list)
    states: dict[int, State] = field(default_factory=dict)
    _crashes: Counter[tuple[str, int]] = field(default_factory=Counter)
    _since: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Follow the run to its end; start it again, as anybody would, when it has failed."""
        d, script = self.deployment, self.script()
        while True:
            before = len(self.killed)
            try:
                d.play(script)
            except RunError as error:
                died = FATAL.intersection(self.killed[before:])
                if not died or "the run ended as finished:failed" not in str(error):
                    raise
                self.say("the run has failed")
                d.rehearsal.supervisor.wait_until(self.superlink_answers, "SuperLink back", 60)
            else:
                if not self.left:
                    return
                self.add_round()

    def script(self) -> Generator[None, None, None]:
        """Kill at random moments, and see the state after every round."""
        due = time.monotonic()
        while True:
            self.look()
            if self.left and time.monotonic() >= due and self.kill():
                due = time.monotonic() + self.stream.expovariate(1 / PAUSE)
            yield

    def add_round(self) -> None:
        """Have one more round in the run that is submitted next."""
        rehearsal = self.deployment.rehearsal
        assert rehearsal.config.rounds < 4 * ROUNDS, f"never there to be killed: {self.left}"
        rehearsal.config = replace(rehearsal.config, rounds=rehearsal.config.rounds + 1)
        shutil.rmtree(rehearsal.place.app)
        write_app(rehearsal.place.app, rehearsal.config)

    def superlink_answers(self) -> bool:
        """Whether a run can be submitted."""
        rehearsal = self.deployment.rehearsal
        return is_healthy(f"https://{HOST}:{rehearsal.port}", rehearsal.place.credentials.ca)

    def look(self) -> None:
        """Keep the server's state if a round has finished."""
        if self.deployment.finished > max(self.states, default=0):
            with RunDatabase(self.deployment.rehearsal.database) as database:
                round, state = database.load()
            self.states[round] = state
            self.say(f"round {round} has finished")

    def kill(self) -> bool:
        """Kill a process of the first kind of which one is there."""
        there = ((kind, self.targets(kind)) for kind in dict.fromkeys(self.left))
        kind, found = next(((kind, found) for kind, found in there if found), ("", []))
        if not found:
            return False
        client, pid = self.stream.choice(found)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has ended a moment ago
            return False
        self.left.remove(kind)
        self.killed.append(kind)
        if kind in CRASHING:
            self._crashes[client, self.deployment.finished] += 1
        self.say(f"killed: {kind} {client}")
        return True

    def targets(self, kind: str) -> list[tuple[str, int]]:
        """Return client and number of each process of a kind that may be killed now."""
        d = self.deployment
        # An app that crashes too often on one message is not asked any more in that round.
        clients = [c for c in d.rehearsal.clients if self._crashes[c, d.finished] < CRASHES]
        if kind == "ServerApp":
            return [("", pid) for pid in d.apps("superlink-superexec", "flwr-serverapp")]
        if kind in ("ClientApp", "warm process"):
            find = d.clientapps if kind == "ClientApp" else d.warm
            return [(client, pid) for client in clients for pid in find(client)]
        names = {
            "SuperExec of a device": {f"supernode-{c}-superexec": c for c in clients},
            "SuperNode": {f"supernode-{c}": c for c in d.rehearsal.clients},
            "SuperLink": {"superlink": ""},
            "SuperExec of the server": {"superlink-superexec": ""},
        }[kind]
        children = [child for child in d.rehearsal.supervisor.children if child.name in names]
        return [(names[child.name], child.process.pid) for child in children if is_well(child)]

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self._since:6.1f} s  {what}", flush=True)


def is_well(child: Child) -> bool:
    """Whether a process is there, and would be started again."""
    # A SuperNode that was killed has to wait until it is let in again.
    _, start, since = child.output().rpartition("Starting Flower SuperNode")
    refused = start and "SuperNode ID" not in since
    seldom = child.restarts < MOST_RESTARTS / 2 or time.monotonic() - child.since > WELL_SECONDS
    return child.process.poll() is None and seldom and not refused


def in_one_process(config: RunConfig, federation: Federation, folder: Path) -> dict[int, State]:
    """Return the states by round of a run to which nothing happens."""
    states = {}

    def keep(finished: int) -> None:
        with RunDatabase(folder / "state.db") as database:
            round, states[finished] = database.load()
        assert round == finished

    train_method(replace(config, checkpoint_seconds=0.0), "fedsub", federation, folder, keep)
    return states


def test_kills_at_random_moments_change_nothing(
    deployment: Deployment,
    town: Callable[..., Federation],
    tmp_path: Path,
    mark: Callable[[], list[str]],
) -> None:
    kinds = [kind for kind, count in KILLS.items() for _ in range(count * TIMES)]
    stream = random.Random(SEED)
    stream.shuffle(kinds)
    print(f"FEDSUB_SOAK={TIMES} FEDSUB_SOAK_SEED={SEED}")
    soak, rehearsal = Soak(deployment, stream, kinds), deployment.rehearsal
    # Who was killed is to be waited for.
    rehearsal.config = replace(rehearsal.config, rounds=ROUNDS, join_timeout=300.0)
    with rehearsal.up():
        soak.run()
    assert mark() == []
    assert len(soak.killed) == sum(KILLS.values()) * TIMES
    rounds = rehearsal.config.rounds
    assert deployment.rounds() == list(range(1, rounds + 1))
    states = in_one_process(rehearsal.config, town(len(rehearsal.clients)), tmp_path)
    for round, state in soak.states.items():
        assert_equal(state["server"], states[round]["server"])
    assert rounds in soak.states
    ours, theirs = (
        {key: value for key, value in metrics.items() if key[2] not in LOST}
        for metrics in (deployment.metrics(), metrics_of(tmp_path / "state.db"))
    )
    assert ours == theirs and len(ours) > 40 * rounds
    assert_equal_devices(deployment, rounds, states[rounds], tmp_path / "models")
