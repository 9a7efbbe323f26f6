"""The release before takes part: what it said and kept (``recorded/``) is read and gone on from."""

import json
import logging
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub.status import reading
from fedsub_client.saved_state import Saved
from fedsub_client.store import FolderStore
from fedsub_core.config.run_config import dump_toml
from fedsub_core.data.card import CARD_FILE, read_card
from fedsub_core.errors import RunError
from fedsub_core.turn import Turn
from fedsub_core.version import VERSION
from fedsub_core.wire import exchange
from fedsub_core.wire.exchange import Instructions
from fedsub_core.wire.greeting import check_given, check_versions
from fedsub_core.wire.handshake import HANDSHAKE, read_introduction
from fedsub_server.data_notes import read_notes
from fedsub_server.live_file import LIVE_FILE
from fedsub_server.rundb import RunDatabase

from .recording import CLIENTS, RECORDED, ROUNDS, Devices, configuration, serve

#: The release's version.
BEFORE = "0.0.9"


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsub_server.app.write_reports", lambda folder: None)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of all that the release before has left."""
    shutil.copytree(RECORDED, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("client", CLIENTS)
def test_each_side_takes_what_the_other_said_then(client: str) -> None:
    said = json.loads((RECORDED / "handshake.json").read_text("utf-8"))[client]
    server, device = ConfigRecord(said["server"]), ConfigRecord(said["device"])
    check_versions(server, client)
    check_given(server, client, ())
    check_versions(device, client)
    assert (found := read_introduction(device)).client == client and found.version == BEFORE


class OlderDevices(Devices):
    """Devices that still say that they are of the release before, and nothing that it did not."""

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        for reply in super().answers(messages):
            if not reply.has_error() and HANDSHAKE in reply.content:
                said = reply.content.config_records[HANDSHAKE]
                said["version"] = BEFORE
                del said["sums"]
            yield reply


class HalfOlderDevices(OlderDevices):
    """Devices of which one half is of the release before."""

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        for message in messages:
            older = message.metadata.dst_node_id % 2
            yield from (OlderDevices if older else Devices).answers(self, [message])


def test_a_service_goes_on_with_half_of_the_fleet_a_release_behind(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for rounds in (ROUNDS + 1, ROUNDS + 2):  # a start for each round
        config = configuration(place, rounds)
        serve(HalfOlderDevices(config, place), config)
    with RunDatabase(place / "run" / "fedsub" / "state.db") as database:
        rows = list(database.metrics())
    for rounds in (ROUNDS + 1, ROUNDS + 2):
        trained = {
            row.client for row in rows if (row.round, row.metric) == (rounds, "bytes_up_sent")
        }
        assert trained == set(CLIENTS)
    behind = [f"client {c}: runs fedsub {BEFORE}" in caplog.text for c in CLIENTS]
    assert True in behind and False in behind


def test_devices_and_server_go_on_from_what_it_left(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = configuration(place, ROUNDS + 2)
    with RunDatabase(place / "run" / "fedsub" / "state.db") as database:
        began, before = database.meta(), list(database.metrics())
    serve(OlderDevices(config, place), config)
    with RunDatabase(place / "run" / "fedsub" / "state.db") as database:
        assert database.last_round() == ROUNDS + 2
        assert database.meta()["run"] == began["run"]
        rows = list(database.metrics())
    assert [row for row in rows if row.round <= ROUNDS] == before
    assert {row.client for row in rows if row.round == ROUNDS + 2} >= set(CLIENTS)
    assert not [row for row in rows if row.metric == "refused_replies"]
    assert f"{place / 'run' / 'fedsub'}: going on after round {ROUNDS}" in caplog.text
    assert "fedsub.relevance-samples was 0 by default, and is 4 from now on" in caplog.text
    for client in CLIENTS:
        assert f"client {client}: runs fedsub {BEFORE}, this server {VERSION}: it is" in caplog.text
        saved = FolderStore(place / "states", client).load()
        assert saved is not None and (saved.round, saved.run) == (ROUNDS + 2, began["run"])
    assert read_notes(place / "run").behind == dict.fromkeys(CLIENTS, BEFORE)
    summary = json.loads((place / "run" / "summary.json").read_text("utf-8"))
    expected = f"Devices behind the server's release: ann ({BEFORE}), bob ({BEFORE}). Upgrade them."
    assert expected in summary["data"]["remarks"]


def test_it_goes_on_in_a_federation_that_gained_classes(place: Path) -> None:
    """The server's card and Bob's have a class more; Ann's device of then does not know it."""
    for name in ("four", "three"):
        shutil.copytree(place / "data", place / name)
    card = place / "four" / CARD_FILE
    card.write_text(card.read_text("utf-8").replace('"c"', '"c", "d"'), "utf-8")
    config = replace(configuration(place, ROUNDS + 2), data=str(place / "four"))
    grid = HalfOlderDevices(config, place)
    for node, context in grid.contexts.items():
        context.node_config["data"] = str(place / ("three" if node % 2 else "four"))
    serve(grid, config)
    assert read_card(place / "four").classes[-1] == "d"
    with RunDatabase(place / "run" / "fedsub" / "state.db") as database:
        rows = list(database.metrics())
    for round in (ROUNDS + 1, ROUNDS + 2):
        trained = {r.client for r in rows if (r.round, r.metric) == (round, "bytes_up_sent")}
        assert trained == set(CLIENTS)
    assert not [row for row in rows if row.metric in ("refused_replies", "begins_anew")]


def test_from_secure_sums_it_is_refused_by_name(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its masks are others. In the plain run of the test above the same devices take part."""
    shutil.rmtree(place / "run")
    of_sums: dict[str, Any] = {
        "secure_aggregation": True,
        "robust": "none",
        "standardise": "client",
    }
    of_sums |= {"upload_encoding": "float32", "method": "fedavg", "join_timeout": 0.5, "hyper": {}}
    config = replace(configuration(place), **of_sums)
    with pytest.raises(RunError, match="0 of at least 1 clients"):
        serve(OlderDevices(config, place), config)
    for client in CLIENTS:
        said = (
            f"client {client!r}, round 0: secure sums: got version 1 of fedsub {BEFORE}, expected"
        )
        assert f"{said} version 2 of fedsub {VERSION}: install the server's release" in caplog.text


def test_a_round_trained_before_the_upgrade_is_answered_from_the_state_of_then(place: Path) -> None:
    """Asked again, as after a crash of the server's, it sends what it sent then."""
    with RunDatabase(place / "run" / "fedsub" / "state.db") as database:
        run = database.meta()["run"]
    grid = Devices(configuration(place), place)
    for node, client in enumerate(CLIENTS, 1):
        path = place / "states" / client / "state.safetensors"
        before = path.read_bytes()
        told = Instructions(Turn(ROUNDS, ROUNDS, 0), "fedsub", None, run).record()
        asked = RecordDict({exchange.TURN: told, exchange.PAYLOAD: exchange.pack(b"")})
        (reply,) = grid.answers([Message(asked, node, MessageType.TRAIN, group_id="2")])
        assert exchange.unpack(reply.content) == Saved.of_bytes(before).reply
        assert path.read_bytes() == before


def test_status_names_who_is_behind(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that goes on in the folder that was begun by the release before."""
    monkeypatch.setattr(reading, "holder", lambda files: 1)
    folder, people = place / "run", {"ann": {"version": BEFORE}, "bob": {"version": VERSION}}
    said = {"host": platform.node(), "method": "fedsub", "version": VERSION, "people": people}
    (folder / LIVE_FILE).write_text(json.dumps(said), "utf-8")
    (folder / "run.toml").write_text(dump_toml(configuration(place, ROUNDS + 1)), "utf-8")
    status = reading.read_status(folder)
    assert (status.state, status.version) == ("going on", VERSION)
    found = [one.text for one in status.troubles if one.kind == "behind"]
    assert found == [f"ann: is behind the server, which runs {VERSION}: it runs {BEFORE}"]
