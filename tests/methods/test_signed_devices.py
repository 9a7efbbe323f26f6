"""Devices with a roster, each behind messages of its own, and a server that lies to them."""

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Message

from fedsub.deploy.roster import ROSTER_FILE, add_to_roster
from fedsub.deploy.verifying import verified
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.device import Device
from fedsub_client.protections.device_roster import SEEN_FILE
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import RunError
from fedsub_core.secure.keys import Words, commitment, public_of
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.participant import Participant
from fedsub_server.run_folder import TRANSCRIPT_FILE

from .server_of_sums import SUMS, Devices, Server, devices, give_roster, phase

FOREIGN = public_of(bytes([1] * 32)) + public_of(bytes([2] * 32)) + commitment(bytes(32))
Lie = Callable[[int, dict[str, Any]], dict[str, Any]]


class LyingDevices(Devices):
    """Devices between which and the server somebody changes questions about sums."""

    lie: Lie = staticmethod(lambda node, record: record)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let each device work on what it is told."""
        for message in messages:
            if phase(message):
                record = dict(message.content.config_records[SECURE])
                changed = self.lie(message.metadata.dst_node_id, record)
                message.content[SECURE] = ConfigRecord(changed)
            yield from super().answers([message])


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """Return a run of four people's devices."""
    write_federation(tmp_path / "data", people())
    return RunConfig(method="fedavg", beside="", data=str(tmp_path / "data"), **SUMS)


@pytest.fixture
def grid(tmp_path: Path, config: RunConfig) -> LyingDevices:
    grid = LyingDevices(config, 4, **{"state-dir": str(tmp_path / "states")})
    give_roster(grid, tmp_path / "keys")
    return grid


def test_sums_are_those_without_a_roster(
    grid: LyingDevices, config: RunConfig, tmp_path: Path
) -> None:
    config = RunConfig(**vars(config) | {"standardise": "federation"})
    for context in grid.contexts.values():
        context.run_config["standardise"] = "federation"
    asked: list[str] = []

    def note(node: int, record: dict[str, Any]) -> dict[str, Any]:
        asked.append(record["phase"])
        return record

    grid.lie = note
    signed, plain = Server(config, grid), Server(config, devices(tmp_path / "plain", config))
    assert signed.metric("secure_people") == {1: 4, 2: 4}
    for ours, theirs in zip(signed.states, plain.states, strict=True):
        assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    # One exchange more for each sum, of two rounds and of moments.
    assert asked.count("view") == asked.count("unmask") == 12
    assert (tmp_path / "states" / "p1" / SEEN_FILE).is_file()


def replaced(node: int, record: dict[str, Any]) -> dict[str, Any]:
    """Show p1 another key of p2."""
    if node == 1 and record["phase"] == "shares":
        for keys in ("values", "signed_keys"):
            names = record["clients" if keys == "values" else "signed"]
            at = names.index("p2")
            rest = record[keys][at][96:]
            record[keys] = [*record[keys][:at], FOREIGN + rest, *record[keys][at + 1 :]]
    return record


def invented(node: int, record: dict[str, Any]) -> dict[str, Any]:
    """Show p1 one person more."""
    if node == 1 and record["phase"] == "shares":
        record |= {"clients": [*record["clients"], "x"], "values": [*record["values"], FOREIGN]}
        record["signed"] = [*record["signed"], "x"]
        record["signed_keys"] = [*record["signed_keys"], FOREIGN + bytes(96)]
    return record


def of_another_round(node: int, record: dict[str, Any]) -> dict[str, Any]:
    """Ask p2 for keys, with p1's signature of another round."""
    if node == 1 and record["phase"] == "shares" and record["round"] == 2:
        at = record["signed"].index("p2")
        now = record["signed_keys"][at]
        old = REPLAYED[0]
        record["signed_keys"] = [
            now[:96] + old if i == at else one for i, one in enumerate(record["signed_keys"])
        ]
    elif node == 1 and record["phase"] == "shares":
        REPLAYED[:] = [record["signed_keys"][record["signed"].index("p2")][96:]]
    return record


REPLAYED: list[bytes] = []


def two_lists(node: int, record: dict[str, Any]) -> dict[str, Any]:
    """Tell p1 and p2 that p4 is silent."""
    if node in (1, 2) and record["phase"] in ("view", "unmask"):
        record["sent"] = [one for one in record["sent"] if one != "p4"]
        record["silent"] = ["p4"]
    return record


@pytest.mark.parametrize(
    ("lie", "round", "said"),
    [
        (
            replaced, 1,
            "client 'p1', round 1: secure sum: keys: got what 'p2' did not sign for this run",
        ),
        (
            invented, 1,
            "client 'p1', round 1: secure sum: keys: got 'x', who is not in the roster, expected "
            "one of the 4 of the roster",
        ),
        (
            of_another_round, 2,
            "client 'p1', round 2: secure sum: keys: got what 'p2' did not sign for this run",
        ),
    ],
    ids=["replaced", "invented", "of another round"],
)  # fmt: skip
def test_a_server_that_shows_other_keys_is_refused_by_name(
    lie: Lie,
    round: int,
    said: str,
    grid: LyingDevices,
    config: RunConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grid.lie = lie
    found = Server(config, grid)
    assert said in caplog.text
    # The others' sum is of three, without who was lied to.
    people = found.metric("secure_people")
    assert people == {n: 3.0 if n == round or round == 1 else 4.0 for n in (1, 2)}


def test_a_server_that_shows_two_lists_opens_nothing(
    grid: LyingDevices, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    grid.lie = two_lists
    found = Server(config, grid)
    assert found.metric("secure_lost") == {1: 1, 2: 1} and not found.metric("secure_people")
    for client, other in (("p1", "p3"), ("p2", "p3"), ("p3", "p1"), ("p4", "p1")):
        who = re.escape(f"client {client!r}, round 1: secure sum: views: got")
        said = re.escape(f"..., signed by {other!r}: it was told something else")
        assert re.search(f"{who} [0-9a-f]{{16}}{said}", caplog.text)


def test_a_device_whose_roster_lost_a_name_takes_no_part(
    grid: LyingDevices, config: RunConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = RunConfig(**vars(config) | {"rounds": 1})
    Server(config, grid)
    keys = tmp_path / "keys"
    (keys / ROSTER_FILE).unlink()
    add_to_roster(keys, {name: keys / f"{name}.pub" for name in ("p1", "p2", "p3")})
    with pytest.raises(RunError, match="0 of 4 people showed keys"):
        Server(config, grid, "another run")
    assert "client 'p1': secure-roster: got a roster of 3 without p4" in caplog.text


def test_devices_take_a_longer_roster_from_the_server(
    grid: LyingDevices, config: RunConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The fourth person's device has it; the others have one without that person."""
    keys = tmp_path / "keys"
    longer = (keys / ROSTER_FILE).read_bytes()
    shutil.copytree(keys, tmp_path / "longer")
    grid.contexts[4].node_config["secure-roster"] = str(tmp_path / "longer" / ROSTER_FILE)
    (keys / ROSTER_FILE).unlink()
    add_to_roster(keys, {name: keys / f"{name}.pub" for name in ("p1", "p2", "p3")})
    with pytest.raises(RunError, match="1 of 4 people shared their secrets"):
        Server(config, grid)
    assert "got 'p4', who is not in the roster" in caplog.text
    found = Server(config, grid, "another run", roster=longer)
    assert found.metric("secure_people") == {1: 4, 2: 4}
    # A server that forges one gets no device.
    forged = longer[:-9] + b"00000000\n"
    with refused(RunError, "turned away", "secure-roster", "a signature of another key"):
        Server(config, grid, "a third run", roster=forged)


def test_who_has_no_roster_is_left_out_and_named(
    grid: LyingDevices, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("secure-roster", "secure-owner", "secure-key"):
        del grid.contexts[3].node_config[key]
    found = Server(config, grid)
    assert found.metric("secure_people") == {1: 3, 2: 3}
    assert "round 1: left out, as most people's keys are signed: p3" in caplog.text


def test_a_device_without_a_roster_says_once_what_protects_it(
    config: RunConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = devices(tmp_path, config)
    for i, context in grid.contexts.items():
        for key in ("partition-id", "num-partitions"):
            del context.node_config[key]
        context.node_config |= {"client-id": f"p{i}", "data": config.data}
    caplog.set_level(logging.WARNING)
    Server(config, grid)
    for i in grid.contexts:
        assert caplog.text.count(f"client p{i}: secure sums without secure-roster") == 1
    assert Device(grid.contexts[1]).client == "p1"


@pytest.mark.parametrize("signed", [False, True], ids=["no roster", "roster"])
def test_a_device_that_lies_in_a_sum_costs_its_group(
    signed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In all rounds the same: people in other groups each time could be told apart."""
    write_federation(tmp_path / "data", people(((0, 1, 2),) * 7))
    config = RunConfig(
        method="fedavg", beside="", data=str(tmp_path / "data"), **SUMS | {"rounds": 3}
    )
    grid = Devices(config, 7, **{"state-dir": str(tmp_path / "states")})
    if signed:
        give_roster(grid, tmp_path / "keys")
    masked = Participant.masked

    def wrong(self: Participant, vector: Words, *rest: Any) -> Words:
        lie = np.zeros_like(vector)
        lie[-1] = (self.client == "p3") << 30
        return masked(self, vector, *rest) + lie

    monkeypatch.setattr(Participant, "masked", wrong)
    transcript = tmp_path / TRANSCRIPT_FILE
    found = Server(config, grid, transcript=transcript)
    groups = re.findall("left out: (.*): weight and shortened: got", caplog.text)
    assert len(groups) == 3 and all("p3" in group for group in groups) and len({*groups}) == 1
    assert not found.metric("secure_lost")
    for round, group in enumerate(groups, 1):
        left = {r.client for r in found.rows if (r.metric, r.round) == ("secure_left_out", round)}
        assert left == {*group.split(", ")}
        assert found.metric("secure_people")[round] == 7 - len(left)
    # Three rounds, each with a sum of all and two of groups. A vector that lies is not as it came.
    for client in ("p1", "p2", "p4"):
        findings = verified(transcript, tmp_path / "states" / client, None, None)
        assert not [one.text for one in findings if one.fault]
        assert any("thresholds: 9 opened sums, the smallest of 3" in one.text for one in findings)
        assert any("6 vectors were counted" in one.text for one in findings)
