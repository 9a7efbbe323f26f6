"""Secure aggregation on devices, each of which answers every message from what it kept."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from torch import Tensor

from fedsub.testing.runs import RunMethod, people
from fedsub_client.device import Device
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.secure.messages import SECURE, Name
from strategies.rounds.noise_ledger import NOISED

from .server_of_sums import SUMS, Devices, Server, devices, phase


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """Return a run of four people's devices."""
    write_federation(tmp_path / "data", people())
    return RunConfig(method="fedavg", beside="", data=str(tmp_path / "data"), **SUMS)


def own_settings(name: str) -> dict[str, Any]:
    """Return a method's hyperparameters in runs of sums, by its name."""
    one: dict[str, Any] = {"k_selection": "fixed:1"}
    gated = one | {"score": "one", "impute": False}
    own = {"fedsub": one | {"fusion": "avg"}, "fedsub-gated": gated}.get(name, {})
    return {name: method(name).hyperparameters(**own)}


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    assert ours.keys() & theirs.keys()
    return all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


@pytest.mark.parametrize(
    ("name", "rounds"),
    [
        ("fedavg", 2),
        ("fedper", 2),
        ("protohar", 3),
        ("fedproto", 3),
        ("fedsub", 4),
        ("fedsub-gated", 4),
        ("fedsub-ridge", 4),
    ],
)
def test_devices_give_what_a_simulation_gives(
    name: str, rounds: int, tmp_path: Path, config: RunConfig, run_method: RunMethod
) -> None:
    """Of fedsub-ridge the first three rounds are sums, of the fourth nothing but heads comes."""
    keys: dict[str, Any] = {"rounds": rounds, "standardise": "federation"}
    keys |= {"encoder": "relu:8"} if name == "fedsub-ridge" else {}
    hyper = own_settings(name)
    config = RunConfig(**vars(config) | {"method": name, "hyper": hyper} | keys)
    found = Server(config, devices(tmp_path, config))
    simulated = run_method(name, people(), hyper=vars(hyper[name]), **SUMS | keys)
    for ours, theirs in zip(found.states, simulated.states, strict=True):
        assert ours
        for key, tensor in ours.items():
            torch.testing.assert_close(theirs[key], tensor, atol=1e-6, rtol=0)
    sums = 3 if name == "fedsub-ridge" else rounds
    assert found.metric("secure_people") == {round: 4 for round in range(1, sums + 1)}
    for client in ("p1", "p2", "p3", "p4"):
        (kept,) = (tmp_path / "states" / client).glob("sums-*.json")
        assert kept.stat().st_mode & 0o777 == 0o600
        left = json.loads(kept.read_text())
        assert (left["opened"], left["seed"], left["mask"], left["shares"]) == (sums, "", "", {})


def test_devices_add_what_a_simulation_adds_with_noise(
    tmp_path: Path, config: RunConfig, run_method: RunMethod
) -> None:
    """Devices bound what they add by themselves. Noise is so little that no digit changes."""
    keys: dict[str, Any] = {"rounds": 3, "dp_noise": 1e-9, "dp_clip": 0.2}
    config = RunConfig(**vars(config) | keys)
    found = Server(config, devices(tmp_path, config))
    simulated = run_method("fedavg", people(), **SUMS | keys)
    for ours, theirs in zip(found.states, simulated.states, strict=True):
        for key, tensor in ours.items():
            if not key.startswith(NOISED):
                torch.testing.assert_close(theirs[key], tensor, atol=2e-6, rtol=0)
    assert found.metric("secure_people") == {1: 4, 2: 4, 3: 4}


def test_a_server_that_died_before_it_wrote_a_round_opens_the_same_sum(
    tmp_path: Path, config: RunConfig
) -> None:
    config = RunConfig(**vars(config) | {"rounds": 1})
    grid = devices(tmp_path, config)
    first, second = Server(config, grid), Server(config, grid)
    assert second.metric("secure_people") == {1: 4}
    assert equal(first.states[0], second.states[0])
    # Of other people it would tell who lacks: nobody helps.
    grid.passes = lambda message: (
        message.metadata.message_type != MessageType.TRAIN or message.metadata.dst_node_id != 3
    )
    third = Server(config, grid)
    assert third.metric("secure_lost") == {1: 1}
    assert sum(r.value for r in third.rows if r.metric == "refused_replies") == 3


def test_a_server_that_died_while_people_sent_their_uploads_begins_the_round_anew(
    tmp_path: Path, config: RunConfig
) -> None:
    """Who had sent one sends the same under other masks, and of the first masks tells nothing."""
    config = RunConfig(**vars(config) | {"rounds": 1})
    grid = devices(tmp_path, config)
    uploads: list[bytes] = []

    def no_unmasking(message: Message) -> bool:
        asked = message.content.config_records.get(SECURE)
        return asked is None or asked["phase"] != "unmask"

    grid.passes = no_unmasking
    assert Server(config, grid).metric("secure_lost") == {1: 1}
    uploads.append(grid_state(tmp_path))
    grid.passes = lambda message: True
    assert Server(config, grid).metric("secure_people") == {1: 4}
    assert grid_state(tmp_path) != uploads[0]
    fresh = devices(tmp_path / "fresh", config)
    assert equal(Server(config, fresh).states[0], Server(config, grid).states[0])


@pytest.mark.parametrize("name", ["fedavg", "fedproto", "fedsub", "fedsub-gated", "fedsub-ridge"])
def test_a_round_that_is_repeated_with_fewer_people_is_rounded_by_their_levels(
    name: str, tmp_path: Path, config: RunConfig
) -> None:
    """The fewer people, the finer: what was saved by one count is not added up by another."""
    # Of three as heavy people twice as many levels fit as of four.
    keys = {"method": name, "hyper": own_settings(name), "rounds": 1, "most_examples": 2.5}
    config = RunConfig(**vars(config) | keys)

    def without_one(grid: Devices) -> Server:
        grid.passes = lambda m: phase(m) != "keys" or m.metadata.dst_node_id != 3
        return Server(config, grid)

    grid = devices(tmp_path, config)
    grid.passes = lambda m: phase(m) != "unmask"
    assert Server(config, grid).metric("secure_lost") == {1: 1}
    found, fresh = without_one(grid), without_one(devices(tmp_path / "fresh", config))
    assert found.metric("secure_people") == {1: 3}
    for name, tensor in fresh.states[0].items():
        torch.testing.assert_close(found.states[0][name], tensor, atol=1e-6, rtol=0)


def grid_state(tmp_path: Path) -> bytes:
    """Return what p1 keeps of its sums."""
    (kept,) = (tmp_path / "states" / "p1").glob("sums-*.json")
    return kept.read_bytes()


def test_runs_of_sums_go_on_side_by_side(tmp_path: Path, config: RunConfig) -> None:
    """One makes all its sums while the other waits for shares, then for what opens its own."""
    grid, alone = devices(tmp_path, config), Server(config, devices(tmp_path / "alone", config))
    others: dict[str, Server] = {}

    def meanwhile(message: Message) -> bool:
        if (asked := phase(message)) in ("shares", "unmask") and asked not in others:
            others[asked] = Server(config, devices(tmp_path, config), f"run of {asked}")
        return True

    grid.passes = meanwhile
    found = Server(config, grid)
    assert others.keys() == {"shares", "unmask"}
    for one in (found, *others.values()):
        assert one.metric("secure_people") == {1: 4, 2: 4} and not one.metric("secure_lost")
        assert all(map(equal, one.states, alone.states))


@pytest.mark.parametrize("damaged", [b"", b'{"round": 1', b"[1]", b'{"later": 1}'])
def test_a_device_whose_sums_are_damaged_takes_part_in_the_next(
    damaged: bytes, tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    device = Device(devices(tmp_path, config).contexts[1])
    store = device.states.store("fedavg")
    asked = ConfigRecord(Name(1, bytes(16), "run", "fedavg").record("keys"))
    with store.lock():
        store.save_sums(damaged, "run")
    said = device.query(RecordDict({SECURE: asked}))
    assert isinstance(said.config_records[SECURE]["keys"], bytes)
    assert f"client {device.client}: what it kept of its sums is damaged" in caplog.text


@pytest.mark.parametrize(
    ("node", "keys", "said"),
    [
        ({"secure-least": 5}, {}, "people: got 4, expected 5 at least"),
        (
            {"secure-aggregation": True},
            {"secure_aggregation": False},
            "got a run whose server sees single uploads, expected secure-aggregation = true",
        ),
        (
            {"secure-least": 4},
            {"method": "protohar"},
            "got 3, for sums over a class or unit of protohar, expected 4 at least",
        ),
    ],
)
def test_an_owner_may_want_more_than_the_run_says(
    node: dict[str, Any],
    keys: dict[str, Any],
    said: str,
    tmp_path: Path,
    config: RunConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = RunConfig(**vars(config) | keys)
    with pytest.raises(RunError, match=r"0 of (4|at least 1)"):
        Server(config, devices(tmp_path, config, **node))
    assert said in caplog.text


def test_a_server_that_wants_single_uploads_in_a_run_of_sums_gets_none(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    asks = RunConfig(**vars(config) | {"secure_aggregation": False})
    with pytest.raises(RunError, match="0 of 4 clients sent a usable upload"):
        Server(asks, devices(tmp_path, config))
    assert "client 'p1', round 1: secure sum: got a question for the upload itself" in caplog.text
    refused = devices(tmp_path, asks)
    with pytest.raises(RunError, match="0 of 4 people showed keys"):
        Server(config, refused)
    assert "client 'p1': asked for a part in a sum, in a run of none" in caplog.text


def test_what_was_sent_under_masks_is_not_sent_again_without(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """A device keeps its round's reply, which it masks anew in each session."""
    config = RunConfig(**vars(config) | {"rounds": 1})
    grid = devices(tmp_path, config)
    Server(config, grid)
    asks = RunConfig(**vars(config) | {"secure_aggregation": False})
    with pytest.raises(RunError, match="0 of 4 clients sent a usable upload"):
        Server(asks, grid)
    assert "client 'p4', round 1: secure sum: got a question for the upload itself" in caplog.text
