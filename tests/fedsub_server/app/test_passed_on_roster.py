"""The roster in a run's folder reaches every device in the handshake, of runs of sums alone."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_core.wire.greeting import ROSTER
from fedsub_core.wire.handshake import HANDSHAKE
from fedsub_server.passed_on_roster import ROSTER_FILE

SUMS = {"rounds": 1, "robust": "none", "standardise": "client", "method": "fedavg"}


@pytest.mark.parametrize("of_sums", [True, False])
def test_devices_are_told_the_roster(
    of_sums: bool, data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any
) -> None:
    told: list[object] = []

    class Listening(devices):  # type: ignore[misc]
        def _work(self, message: Message) -> Message | None:
            if HANDSHAKE in message.content:
                told.append(message.content.config_records[HANDSHAKE].get(ROSTER))
            found: Message | None = super()._work(message)
            return found

    config = configuration(data, tmp_path / "run", **SUMS, **{"secure-aggregation": of_sums})
    (tmp_path / "run").mkdir(exist_ok=True)
    roster = b"fedsub-roster 1\nof people whom devices without a roster do not look for\n"
    (tmp_path / "run" / ROSTER_FILE).write_bytes(roster)
    serve(Listening(config), config)
    assert told == [roster if of_sums else None] * 3
    (tmp_path / "run" / ROSTER_FILE).write_bytes(b"none")
    if of_sums:
        with refused(RunError, ROSTER_FILE, expected="fedsub-roster 1"):
            serve(Listening(config), config)
