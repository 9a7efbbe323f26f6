"""Devices that have opened sums of statistics remember it: no server gets a single person's.

Each test is a threat: what a server would do to learn what p4 alone added.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub.engines.simulation import build_strategy
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.device import Device
from fedsub_client.protections.opened_store import OPENED_FILE
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.secure.messages import MOMENTS, SECURE, Name, Plan
from fedsub_core.wire import exchange

from .server_of_sums import SUMS, Devices, Server, devices, phase

CLASSES, STATISTICS = 1, 2
#: The node of p4.
LAST = 4


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """Return a run of four people's devices, whose statistics are opened in its last round."""
    write_federation(tmp_path / "data", people())
    keys = SUMS | {"rounds": STATISTICS, "encoder": "relu:8"}
    return RunConfig(method="fedsub-ridge", beside="", data=str(tmp_path / "data"), **keys)


def round_of(message: Message) -> int:
    records = message.content.config_records
    said = records[SECURE] if phase(message) else records[exchange.TURN]
    return int(str(said["round"]))


def round_of_sum(message: Message) -> int:
    """Return the round of a question about a sum; -1: it is none."""
    return round_of(message) if phase(message) else -1


def without_the_last(*rounds: int) -> Any:
    """Return what loses p4's download in some rounds."""

    def passes(message: Message) -> bool:
        trains = message.metadata.message_type == MessageType.TRAIN
        last = message.metadata.dst_node_id == LAST
        return not (trains and last and round_of(message) in rounds)

    return passes


def statistics(server: Server) -> dict[str, Any]:
    """Return everybody's sums after the last round."""
    return {n: t for n, t in server.states[-1].items() if n.startswith("everybody")}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys() and any(t.any() for t in ours.values())
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def test_a_server_that_forgot_a_sum_gets_none_of_fewer_people(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """It begins the run again, as with an empty database, and says that p4 went silent."""
    grid = devices(tmp_path, config)
    first = Server(config, grid)
    assert first.metric("secure_people") == {CLASSES: 4, STATISTICS: 4}
    grid.passes = without_the_last(STATISTICS)
    second = Server(config, grid)
    assert second.metric("secure_lost") == {STATISTICS: 1}
    assert not any(tensor.any() for tensor in statistics(second).values())
    assert "client 'p1', round 2: secure sum: statistics again: got" in caplog.text
    # Of the same people it is the same sum.
    grid.passes = lambda message: True
    assert_same(statistics(Server(config, grid)), statistics(first))


def test_a_later_round_gets_no_sum_of_fewer_people(tmp_path: Path, config: RunConfig) -> None:
    """The answers that open round 2's sum come too late, and in round 3 p4 is silent."""
    config = RunConfig(**vars(config) | {"rounds": 4})
    grid = devices(tmp_path, config)
    grid.hears = lambda message: phase(message) != "unmask" or round_of(message) != STATISTICS
    grid.passes = without_the_last(3)
    found = Server(config, grid)
    assert found.metric("secure_lost") == {2: 1, 3: 1}
    assert found.metric("secure_people") == {CLASSES: 4, 4: 4}
    undisturbed = RunConfig(**vars(config) | {"rounds": STATISTICS})
    assert_same(
        statistics(found), statistics(Server(undisturbed, devices(tmp_path / "fresh", undisturbed)))
    )


def test_a_sum_that_p4_cannot_be_in_gets_no_vector(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    grid = devices(tmp_path, config)
    Server(config, grid)

    def without_keys(message: Message) -> bool:
        asked = phase(message) == "keys" and round_of(message) == STATISTICS
        return not (asked and message.metadata.dst_node_id == LAST)

    grid.passes = without_keys
    assert Server(config, grid).metric("secure_lost") == {STATISTICS: 1}
    assert "round 2: 0 vectors came, expected 3 at least" in caplog.text
    assert "statistics again: got a sum without ['p4'], expected everybody of" in caplog.text


def test_without_its_memory_a_device_is_in_no_sum_of_statistics(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    grid = devices(tmp_path, config)
    Server(config, grid)
    for client in ("p1", "p2", "p3"):
        (kept,) = (tmp_path / "states" / client).glob("sums-*.json")
        kept.write_bytes(b"{")
    grid.passes = without_the_last(STATISTICS)
    with pytest.raises(RunError, match="clients sent a usable upload"):
        Server(config, grid)
    for client in ("p1", "p2", "p3"):
        assert f"client '{client}', round 2: secure sum: statistics again: got a p" in caplog.text
    # Another run may begin.
    assert Server(config, grid, "another").metric("secure_people")[CLASSES] == 4


def test_a_run_that_goes_on_with_another_main_method_gets_no_sum_of_fewer_people(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """What a device keeps of the former main method then lies where the new one's did."""
    Server(config, devices(tmp_path, config))
    for main, beside in (("fedavg", config.method), (config.method, "fedavg")):
        other = RunConfig(**vars(config) | {"method": main, "beside": beside, "hyper": {}})
        grid = devices(tmp_path, other)
        grid.passes = without_the_last(STATISTICS)
        strategy = build_strategy(other, config.method)
        strategy.run_name = "a run"
        caplog.clear()
        strategy.start(grid)
        assert strategy.state is not None and not strategy.state["everybody.gram"].any()
        # Devices refuse a sum of fewer; or who keeps what the former server told is no part of one.
        refused = "client 'p1', round 2: secure sum: statistics again: got" in caplog.text
        assert refused or "p4 were told something else than 3 others" in caplog.text


def test_what_all_standardise_by_is_added_up_of_the_same_people_alone(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """Moments of a person stay the same: two sums, one without p4, would tell p4's."""
    keys = vars(config) | {"method": "fedavg", "hyper": {}, "rounds": 1, "encoder": "none"}
    config = RunConfig(**keys | {"standardise": "federation"})
    grid = devices(tmp_path, config)
    scalings = [Server(config, grid).strategy.population.agreed.scaling for _ in range(2)]
    assert all(scalings) and len({one.bits for one in scalings if one is not None}) == 1
    grid.passes = lambda m: phase(m) != "keys" or m.metadata.dst_node_id != LAST
    with refused(RunError, "standardise", "0 vectors"):
        Server(config, grid)
    assert "moments of samples again: got a sum without ['p4'], expected everybody" in caplog.text
    # Nor where a device no longer knows with whom it opened one.
    grid.passes = lambda message: True
    for client in ("p1", "p2", "p3"):
        for file in (tmp_path / "states" / client).glob("sums*.json"):
            file.write_bytes(b"{")
    grid.passes = lambda m: phase(m) != "keys" or m.metadata.dst_node_id != LAST
    with refused(RunError, "standardise", "0 vectors"):
        Server(config, grid)
    assert "moments of samples again: got a plan of round 0, expected none of" in caplog.text


@pytest.mark.parametrize("damaged", [False, True])
def test_no_other_run_or_method_gets_a_sum_of_nearly_the_same_people(
    damaged: bool, tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """The name is the server's to choose; and who no longer knows opens nothing."""
    config = RunConfig(**vars(config) | {"standardise": "federation"})
    grid = devices(tmp_path, config)
    found = Server(config, grid)
    if damaged:
        for kept in (tmp_path / "states").glob(f"*/{OPENED_FILE}"):
            kept.write_bytes(kept.read_bytes()[:-9])
    other = RunConfig(**vars(config) | {"method": "fedavg", "hyper": {}, "encoder": "none"})
    later = devices(tmp_path, other)
    if not damaged:
        assert Server(other, later, "a month later").metric("secure_people") == {1: 4, 2: 4}
        assert_same(statistics(Server(config, grid, "of the same")), statistics(found))
    caplog.clear()
    later.passes = lambda m: phase(m) != "keys" or m.metadata.dst_node_id != LAST
    with refused(RunError, "standardise"):
        Server(other, later, "another")
    names = OPENED_FILE if damaged else "the sum of round 0 of run 'a run', opened on"
    for client in ("p1", "p2", "p3"):
        said = f"client {client!r}, round 0: secure sum: moments of samples again: got .*{names}"
        assert re.search(said, caplog.text)
    assert "round 0: 3 of 3 people refused their part in the sum, the first" in caplog.text


def test_a_round_before_the_last_is_not_opened_without_one(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that is restored from a backup loses rounds until it has come as far."""
    config = RunConfig(**vars(config) | {"method": "fedavg", "hyper": {}, "encoder": "none"})
    Server(config, devices(tmp_path, config))
    longer = RunConfig(**vars(config) | {"rounds": 3})
    grid = devices(tmp_path, longer)
    grid.passes = without_the_last(1)
    found = Server(longer, grid)
    # In round 2 p4 has an answer of the time before.
    assert found.metric("secure_lost") == {1: 1, 2: 1} and found.metric("secure_people") == {3: 4}
    assert "client 'p1', round 1: secure sum: rounds: got round 1, of" in caplog.text


def test_a_round_is_opened_of_the_same_people_also_behind_another_sum_of_moments(
    tmp_path: Path, config: RunConfig
) -> None:
    keys = vars(config) | {"method": "fedavg", "hyper": {}, "rounds": 1, "encoder": "none"}
    config = RunConfig(**keys | {"standardise": "federation"})
    grid = devices(tmp_path, config)
    Server(config, grid)
    # What was agreed on by then still opens the round's own sums of others, but no second time.
    grid.passes = lambda m: round_of_sum(m) != 1 or m.metadata.dst_node_id != LAST
    assert Server(config, grid).metric("secure_lost") == {1: 1}
    assert Server(config, grid, "another").metric("secure_people") == {1: 3}


def test_moments_leave_no_device_whose_run_shares_none(tmp_path: Path, config: RunConfig) -> None:
    config = RunConfig(**vars(config) | {"method": "fedavg", "hyper": {}, "standardise": "client"})
    device = Device(devices(tmp_path, config).contexts[1])
    plan = Plan(Name(0, bytes(16), "a run", "fedavg"), {}, 1, 1)
    asked = ConfigRecord(plan.record() | {"phase": MOMENTS, "of": "samples"})
    with refused(MessageRefused, what="moments", got="'samples'"):
        device.query(RecordDict({SECURE: asked}))


@pytest.mark.parametrize(
    ("method", "rounds"), [("fedsub-ridge", STATISTICS), ("fedsub-ridge", CLASSES), ("fedavg", 1)]
)
def test_who_sent_under_masks_sends_nothing_without_in_that_run(
    method: str,
    rounds: int,
    tmp_path: Path,
    config: RunConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server starts the run again with another config, which its devices go by, too.

    It asks for the last round of secure sums, and for one that comes later.
    """
    keys = vars(config) | {"method": method, "hyper": {}, "rounds": rounds}
    Server(RunConfig(**keys), devices(tmp_path, RunConfig(**keys)))
    plain = RunConfig(**keys | {"secure_aggregation": False})
    grid = devices(tmp_path, plain)
    for round in (rounds, rounds + 1):
        with pytest.raises(MessageRefused, match="got a question for the upload itself"):
            Device(grid.contexts[1]).train(question(method, round, "a run"))
    with pytest.raises(RunError, match="0 of 4 clients sent a usable upload"):
        Server(plain, grid)
    assert "client 'p4', round 1: secure sum: got a question for the upload" in caplog.text
    # Runs of single uploads are still its owner's to allow.
    assert Server(plain, grid, "another").states


def question(method: str, round: int, run: str) -> RecordDict:
    """Return a download with nothing in it, and no plan of a sum."""
    turn: dict[str, Any] = {"round": round, "rounds": 4, "seed": 0, "method": method, "run": run}
    return RecordDict({exchange.TURN: ConfigRecord(turn), exchange.PAYLOAD: exchange.pack(b"")})


def test_an_owner_who_shows_sums_alone_is_not_asked_past_the_handshake(
    tmp_path: Path, config: RunConfig
) -> None:
    """Nor does the device train, or keep a reply that could be asked for later."""
    plain = RunConfig(**vars(config) | {"secure_aggregation": False})
    node = {"state-dir": str(tmp_path / "states"), "secure-aggregation": True}
    device = Device(Devices(plain, 4, **node).contexts[1])
    with refused(MessageRefused, "upload", client="p1", round=1):
        device.train(question("fedsub-ridge", 1, "a run"))
    assert not (tmp_path / "states" / "p1" / STATE_FILE).exists()
