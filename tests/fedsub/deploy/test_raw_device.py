"""Raw devices attack a deployment over TLS, each with a registered key; the honest go on alike.

``FEDSUB_RAW_ROUNDS=12`` shows what more rounds with silent devices last.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from fedsub.engines.simulation import train_method
from fedsub_client.loaded_model import load_model
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.card import read_card
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.metric_names import ANEW, CONFUSION, CONFUSION_PEOPLE, DIVERGED
from fedsub_server.rundb import RunDatabase

from .raw_device.openings import OPENINGS
from .raw_device.replies import REPLIES
from .raw_rehearsal import WithRawDevices

pytestmark = pytest.mark.slow

HONEST = ("p1", "p2")
#: A silent device is asked in the first two and then rests for one.
ROUNDS = int(os.environ.get("FEDSUB_RAW_ROUNDS", "3"))
FITTING = {*REPLIES, "foresight"}
#: Who comes in round 1 can only hit who comes later: the last, in round 2. All others are there
#: before the run, which begins when it knows them.
THEN, LAST = ["foresight-greeting"], ["no-handshake"]
FIRST = [*REPLIES, "foresight", *(name for name in OPENINGS if name not in LAST)]
ATTACKERS = [*FIRST, *THEN, *LAST]
SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "beside": "",
    "rounds": ROUNDS,
    "lr": 0.05,
    "batch-size": 8,
    # What an attacker says of its data has no part in what the others train on.
    "standardise": "client",
    "evaluate-every": 2,
    "round-timeout": float(os.environ.get("FEDSUB_RAW_TIMEOUT", "40")),
    "join-timeout": 300.0,
    # Attackers are many more than the honest here.
    "quorum": 0.01,
    "device": "cpu",
    "threads": len(HONEST),
}
#: What a slow machine needs beside a round's deadlines: starting, saving, looking who is there.
SLACK_SECONDS = 90.0
MIB = 2**20


@dataclass
class Attack:
    """What a deployment did while it was attacked."""

    rehearsal: WithRawDevices
    #: When the run was submitted and each round was over, and how many bytes lay where by then.
    ends: list[float] = field(default_factory=list)
    written: list[dict[str, int]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        """What each round lasted; the first with all that comes before it."""
        return [after - before for before, after in pairwise(self.ends)]

    def look(self) -> None:
        """Note the time, and what lies on the disk."""
        place = self.rehearsal.place
        self.ends.append(time.monotonic())
        files = {"run": place.run, "logs": place.logs, "link": place.folder}
        globs = {"run": "**/*", "logs": "*", "link": "link.db*"}
        sizes = {n: [p.stat().st_size for p in files[n].glob(globs[n])] for n in files}
        self.written.append({name: sum(found) for name, found in sizes.items()})

    def asked(self, kind: str) -> set[tuple[int, str]]:
        """Round and name of the raw devices that were asked for something."""
        journal = self.rehearsal.journal
        return {(e["round"], e["device"]) for e in journal if e.get("kind") == kind}

    def delay_until_introduced(self, names: Sequence[str], patience: float) -> None:
        """Keep an honest device from training until raw devices have said who they are."""
        answered = {(0, name) for name in names}
        supervisor, state = self.rehearsal.supervisor, self.rehearsal.place.state
        with (state / HONEST[0] / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            supervisor.wait_until(lambda: answered <= self.asked("query"), "answers", patience)

    def counted(self, *metrics: str) -> set[tuple[int, str | None]]:
        """Round and client of all rows of some metrics."""
        return {(row.round, row.client) for row in self.rows if row.metric in metrics}


@pytest.fixture(scope="module")
def config(town: Callable[..., Federation], tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    folder = tmp_path_factory.mktemp("attacked")
    write_federation(folder / "data", town(len(HONEST)))
    places = {"data": str(folder / "data"), "out": str(folder / "out")}
    return read_config(None, SETTINGS | places)


@pytest.fixture(scope="module")
def attack(config: RunConfig) -> Iterator[Attack]:
    """A run in which the honest are never alone: attackers are there first, and others come."""
    rehearsal = WithRawDevices(config, len(HONEST), ATTACKERS)
    attack = Attack(rehearsal)
    with rehearsal.up():
        rehearsal.start_raw(FIRST)
        attack.look()
        for finished in rehearsal.follow(rehearsal.submit()):
            if len(rehearsal.nodes()) == len(FIRST) and attack.asked("train"):
                rehearsal.start_raw(THEN)
            if len(attack.ends) > finished:
                continue
            attack.look()
            if finished == 1:
                # It is asked who it is at the end of round 2, in which all wait for silent ones, or
                # else at the beginning of round 3.
                rehearsal.start_raw(LAST)
            elif finished == 2:
                # What it has said by the end of round 3's training is heard.
                attack.delay_until_introduced(LAST, SETTINGS["round-timeout"] * 0.75)
    with RunDatabase(rehearsal.database) as database:
        attack.rows = list(database.metrics())
    yield attack


@pytest.fixture(scope="module")
def undisturbed(
    config: RunConfig, town: Callable[..., Federation], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of the same run in one process, of honest clients alone."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train_method(config, "fedavg", town(len(HONEST)), folder, lambda round: None)
    return folder


def test_all_rounds_are_completed_and_every_honest_upload_is_used(attack: Attack) -> None:
    with RunDatabase(attack.rehearsal.database) as database:
        assert database.last_round() == ROUNDS
    everybody = {(round, client) for round in range(1, ROUNDS + 1) for client in HONEST}
    assert attack.counted("bytes_up_sent") == everybody  # and of nobody else
    wrong = attack.counted("refused_replies", "missing_replies", "late_replies")
    assert not {client for _, client in wrong} & set(HONEST)


def test_each_attacker_is_named(attack: Attack) -> None:
    log, nodes = attack.rehearsal.log("run"), attack.rehearsal.nodes()
    assert attack.asked("query") >= {(0, name) for name in ATTACKERS}
    for name in OPENINGS:
        assert f"node {nodes[name]}: " in log, name
    for name in ("honest-id", "absent-id"):
        assert f"its key was registered under the name {name!r}" in log
    # What would lock the database for all is refused at the door.
    many = [e for e in attack.rehearsal.journal if e.get("device") == "many-objects"]
    refused = {e["how"] for e in many if e.get("kind") == "train"}
    assert refused == {"INVALID_ARGUMENT"}
    tried = attack.asked("train")
    assert {name for _, name in tried} == FITTING
    assert tried <= attack.counted("refused_replies", "missing_replies")
    assert max(map(len, log.splitlines())) < 1500


def test_what_was_not_asked_for_is_in_no_table(attack: Attack, config: RunConfig) -> None:
    evaluated = {r for r in range(1, ROUNDS + 1) if r % 2 == 0 or r == ROUNDS}
    assert {r for r, _ in attack.counted("macro_f1", "bytes_evaluation_sent")} == evaluated
    known = {row.metric for row in attack.rows if row.client in HONEST}
    classes = range(len(read_card(config.data).classes))
    assert {row.metric for row in attack.rows} <= known | {
        CONFUSION_PEOPLE,
        *(f"{CONFUSION}{label}" for label in classes),
        "refused_replies",
        "missing_replies",
        "messages_resent",
        "late_replies",
        "slow_replies",
        "resting",
        DIVERGED,
        ANEW,
    }
    assert not any("name" in metric or "report" in metric for metric in known)


def test_the_honest_learn_what_they_learn_without_attackers(
    attack: Attack, undisturbed: Path
) -> None:
    with RunDatabase(undisturbed / "state.db") as database:
        state, rows = database.load()[1]["server"], list(database.metrics())
    with RunDatabase(attack.rehearsal.database) as database:
        attacked = database.load()[1]["server"]
    for name, tensor in state.items():
        assert torch.equal(attacked[name], tensor), name

    def own(rows: list[Any]) -> dict[Any, float]:
        return {
            (row.round, row.client, row.metric, row.label): row.value
            for row in rows
            if row.client in HONEST and not row.metric.endswith("_flower")
        }

    assert own(attack.rows) == own(rows)
    assert sum(key[2] == "loss" for key in own(rows)) >= len(HONEST) * (ROUNDS // 2)
    for client in HONEST:
        kept = attack.rehearsal.place.state / client / STATE_FILE
        model = Saved.of_bytes(kept.read_bytes()).model
        assert model is not None
        for name, tensor in load_model(
            undisturbed / "models" / f"{client}.safetensors"
        ).params.items():
            assert torch.equal(model.params[name], tensor), (client, name)


def test_a_round_waits_for_its_deadline_at_most_once(
    attack: Attack, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = {round for round, name in attack.asked("train") if name == "silent"}
    with capsys.disabled():
        print("\nseconds of rounds:", *(f"{s:.1f}" for s in attack.seconds))
        print("silent devices were asked in rounds", *sorted(silent))
    assert max(attack.seconds) < 2 * SETTINGS["round-timeout"] + SLACK_SECONDS
    # Who is silent when it should train is not asked, and awaited, a second time in that round.
    missing = {(r.round, r.client): r.value for r in attack.rows if r.metric == "missing_replies"}
    assert set(missing.values()) == {1}
    # After its first silence it is asked in the next round, then two rounds later, and so on.
    assert silent == {r for r in (1, 2, 4, 8) if r <= ROUNDS}
    asked = {round for round, _ in attack.asked("train") | attack.asked("evaluate")}
    assert 3 not in asked and {round for round, _ in missing} <= asked


def test_attackers_fill_no_disk(attack: Attack, capsys: pytest.CaptureFixture[str]) -> None:
    ended = [e for e in attack.rehearsal.journal if e.get("kind") == "ended"]
    sent, grown = sum(e["sent"] for e in ended), {}
    for name in ("run", "logs", "link"):
        sizes = [look[name] for look in attack.written]
        each = [after - before for before, after in pairwise(sizes)]
        grown[name] = sum(each)
        with capsys.disabled():
            print(f"\nbytes a round, {name}: {each}")
    with capsys.disabled():
        print(f"attackers sent {sent} bytes in {ROUNDS} rounds")
    assert grown["run"] < ROUNDS * MIB
    # The SuperLink logs every look for a reply, some of them every 0.2 s.
    assert grown["logs"] < ROUNDS * 2 * MIB
    # It keeps what devices push until it is fetched, and SQLite's files do not shrink.
    assert grown["link"] < 3 * sent + ROUNDS * MIB
    assert [e["modules"] for e in ended] == [[]] * 3
