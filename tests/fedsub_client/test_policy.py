"""A device's policy: what it allows, what is refused when it is set, and how it is honoured."""

import time
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict

from fedsub.testing.refusals import refused
from fedsub_client import app, policy
from fedsub_client.device import Device
from fedsub_client.policy import Policy, Present, Unwilling, check_policy, read_policy
from fedsub_core.config.run_config import read_config, to_flat
from fedsub_core.data.sources import client_ids
from fedsub_core.errors import ConfigError
from fedsub_core.wire.handshake import read_introduction

FLAT = Present(23, charging=False, battery=0.4, wifi=False)


@pytest.mark.parametrize(
    "own, now, why",
    [
        (Policy(), FLAT, ""),
        (Policy(charging=True), FLAT, "not charging"),
        (Policy(charging=True), Present(3), ""),
        (Policy(wifi=True), FLAT, "metered"),
        (Policy(battery=0.5), FLAT, "40%"),
        (Policy(battery=0.3), FLAT, ""),
        (Policy(hours="22-7"), FLAT, ""),
        (Policy(hours="22-7"), Present(7), "7 o'clock"),
        (Policy(hours="9-17"), Present(16), ""),
        (Policy(hours="9-17"), Present(17), "17 o'clock"),
    ],
)
def test_what_a_policy_allows(own: Policy, now: Present, why: str) -> None:
    assert why in own.why_not(now) and bool(own.why_not(now)) == bool(why)


@pytest.mark.parametrize(
    "hours, clock, left, begin",
    [
        ("22-7", "23:30", 7.5, 22.5),
        ("22-7", "07:00", 0, 15),
        ("9-17", "08:00", 0, 1),
        ("0-6", "00:00", 6, 0),
        ("18-24", "17:59", 0, 1 / 60),
    ],
)
def test_hours_are_said_from_now_on(hours: str, clock: str, left: float, begin: float) -> None:
    own = Policy(hours=hours).daily(time.strptime(clock, "%H:%M"))
    assert own is not None and own.left(0.0) == 3600 * left and own.begin == 3600 * begin
    assert Policy(charging=True).daily(time.localtime()) is None


@pytest.mark.parametrize(
    "keys, key",
    [
        ({"hours": "8-8"}, "hours"),
        ({"hours": "0-24"}, "hours"),
        ({"hours": "at night"}, "hours"),
        ({"hours": "22-31"}, "hours"),
        ({"battery": 1.0}, "battery"),
        ({"battery": float("nan")}, "battery"),
        ({"charging": "yes"}, "charging"),
    ],
)
def test_what_never_allows_anything_is_refused(keys: dict[str, Any], key: str) -> None:
    with refused(ConfigError, "policy", key, got=next(iter(keys.values()))):
        Policy(**keys)


def test_a_file_is_read_and_an_unknown_key_refused(tmp_path: Path) -> None:
    assert read_policy(tmp_path) == Policy()
    file = tmp_path / policy.POLICY_FILE
    file.write_text('charging = true\nhours = "22-7"\n')
    assert read_policy(tmp_path) == Policy(charging=True, hours="22-7")
    file.write_text("chargin = true\n")
    with refused(ConfigError, "policy.toml"):
        read_policy(tmp_path)


def test_a_device_says_that_it_does_not_take_part_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Present, "read", classmethod(lambda cls: FLAT))
    check_policy(tmp_path, "ann")
    (tmp_path / policy.POLICY_FILE).write_text("charging = true\n")
    with refused(Unwilling, "ann"):
        check_policy(tmp_path, "ann")


def test_a_device_says_its_hours_when_a_server_asks_who_it_is(tmp_path: Path) -> None:
    (tmp_path / policy.POLICY_FILE).write_text('hours = "22-7"\n')
    given = {"method": "fedsub-ridge", "beside": "", "data": "watch"}
    flat = to_flat(read_config(None, given))
    person: dict[str, Any] = {"client-id": client_ids("watch")[0], "data": "watch"}
    said = []
    for node in (person, {**person, "state-dir": str(tmp_path)}):
        answer = Device(Context(0, 1, node, RecordDict(), flat)).query(RecordDict())
        record = answer.config_records["handshake"]
        said.append(read_introduction(record).facts.hours)
    without, own = said
    assert without is None and own is not None and own.length == 9 * 3600


def test_it_reads_how_a_machine_is_fed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "POWER", tmp_path)
    assert Present.read().charging and Present.read().battery == 1
    battery = tmp_path / "BAT0"
    battery.mkdir()
    (battery / "capacity").write_text("37\n")
    (battery / "status").write_text("Discharging\n")
    assert (Present.read().charging, Present.read().battery) == (False, 0.37)
    (tmp_path / "AC").mkdir()
    (tmp_path / "AC" / "online").write_text("1\n")
    assert Present.read().charging


def test_the_app_answers_kindly(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedsub_core.flower.messages import play_alone

    class Asleep:
        def __init__(self, context: Context) -> None:
            pass

        def answer(self, kind: str, content: RecordDict) -> RecordDict:
            raise Unwilling("it is not charging")

    play_alone()
    monkeypatch.setattr(app, "Device", Asleep)
    asked = Message(RecordDict(), 1, "train")
    reply = app.train(asked, Context(0, 1, {}, RecordDict(), {}))
    assert reply.has_error() and "not charging" in str(reply.error.reason)
