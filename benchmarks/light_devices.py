"""Light devices, many in one process: they pull, and answer without training.

Each has a key, a TLS connection and a thread of its own, beats and looks as a SuperNode does, joins
its messages, and answers with an upload that was made before. In a run of secure sums it takes part
in them as a device does: its keys, shares and masks are its own, and of the run. They are the raw
devices of the tests (`tests/fedsub/deploy/raw_device`).
"""

import json
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

from fedsub_client.protections.accepted_sum import AcceptedSum
from fedsub_core.config.settings import SecureSettings
from fedsub_core.files import write_whole
from fedsub_core.looks import pause
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.transcript import Origin
from fedsub_core.wire.exchange import METRICS, PAYLOAD, REPORT
from fedsub_core.wire.joined import JOINED, MOST_BYTES
from tests.fedsub.deploy.raw_device import connection, device
from tests.fedsub.deploy.raw_device.connection import Connection
from tests.fedsub.deploy.raw_device.device import Device, Question
from tests.fedsub.deploy.raw_device.objects import (
    Thing,
    config_record,
    content,
    metric_record,
    payload,
)

#: Seconds in which a SuperNode is heard of, and between two of its heartbeats: Flower's own.
HEARTBEAT, BEAT = 30.0, 20.0
#: Devices that are let in at once.
AT_ONCE = 8
#: Where the devices write how many are there, and what they took so far, by the names below it.
THERE, TAKEN = "there", "taken.json"
#: CPU seconds of the process; bytes of all requests, and of all answers to them; their number.
CPU, UP, DOWN, CALLS = "devices", "up", "down", "calls"
#: What a run of secure sums is measured with: the defaults.
SUMS = SecureSettings()
RESULT = {"macro_f1": 0.5, "weighted_f1": 0.5, "accuracy": 0.5, "loss": 1.0, "examples": 43.0}


def separated(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the records of plain values that a joined one holds."""
    found = dict[str, dict[str, Any]]()
    for key, value in record.items():
        name, dot, inner = key.partition(".")
        if dot:
            found.setdefault(name, {})[inner] = value
    return found


def said_as(numbers: dict[str, dict[str, float]], upload: bytes, joins: bool) -> Thing:
    """Return records of numbers and an upload, b"" for none; in one record if `joins`."""
    if joins and len(upload) <= MOST_BYTES:
        flat = {f"{name}.{key}": n for name, all in numbers.items() for key, n in all.items()}
        return content({JOINED: config_record(flat | ({PAYLOAD: upload} if upload else {}))})
    things = {name: metric_record(all) for name, all in numbers.items()}
    return content(things | ({PAYLOAD: payload(upload)} if upload else {}))


@dataclass(frozen=True)
class Made:
    """What a device says: of itself, and as its upload of each round.

    In a run of secure sums an upload is the vector before it is masked.
    """

    introduction: dict[str, Any]
    uploads: list[bytes]

    def write(self, folder: Path, name: str) -> None:
        """Write it for the device's process."""
        (folder / f"{name}.json").write_text(json.dumps(self.introduction))
        for round, upload in enumerate(self.uploads, 1):
            (folder / f"{name}.{round}").write_bytes(upload)


class Trained:
    """How a device answers that has trained already.

    Parameters
    ----------
    folder : where what it says was written.
    name : the device's.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.introduction = json.loads((folder / f"{name}.json").read_text())
        self.person = Participant(name, SUMS.secure_least)

    def __call__(self, device: Device, question: Question) -> str:
        """Answer a question."""
        kind, asked, joins = question.metadata.message_type, question.records, False
        if JOINED in asked:
            asked, joins = separated(asked[JOINED]), True
            question.records = asked
        if kind == "query" and SECURE in asked:
            said = self.person.answer(asked[SECURE], question.round)
            return device.send(question, content({SECURE: config_record(said)}))
        if kind == "query":
            greeted = asked["handshake"]
            said = self.introduction | {"version": greeted["version"], "schema": greeted["schema"]}
            said[JOINED] = 1
            return device.send(question, content({"handshake": config_record(said)}))
        if kind == "evaluate":
            return device.send(question, said_as({METRICS: RESULT}, b"", joins))
        upload = (self.folder / f"{self.name}.{question.round}").read_bytes()
        if SECURE in asked:
            upload = self._masked(upload, question)
        numbers = {REPORT: {"training_loss": 1.0}}
        if asked["turn"].get("evaluate"):
            numbers[METRICS] = RESULT
        return device.send(question, said_as(numbers, upload, joins))

    def _masked(self, upload: bytes, question: Question) -> bytes:
        """Return a vector under masks, by the plan that came with the question."""
        plan = Reader(self.name, question.round).plan(question.records[SECURE])
        self.person.accept(plan)
        levels = Levels(SUMS.secure_range, plan.weight, plan.each)
        # Made before: of nothing that it was told, as all others' uploads here.
        return AcceptedSum(self.person, plan, levels, "").masked(upload, Origin()).to_bytes()


@dataclass
class Crowd:
    """The devices of this process, and what went wrong with them."""

    folder: Path
    look: float
    devices: list[Device] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def let_in(self, address: str, ca: Path, keys: Path) -> Callable[[str], None]:
        """Return a function that lets one device in and starts it."""

        def one(name: str) -> None:
            connected = Connection(address, ca, keys / name)
            own = Device(name, connected, Trained(self.folder, name), self.note)
            with self._lock:
                late = (len(self.devices) * 0.618 % 1) * (self.look or pause(0.0))
                self.devices.append(own)
            threading.Thread(target=own.work, args=(late,), daemon=True).start()

        return one

    def taken(self) -> dict[str, float]:
        """Return the CPU seconds and bytes of the devices so far."""
        connected = [one.connection for one in self.devices]
        up, down = sum(one.sent for one in connected), sum(one.received for one in connected)
        calls = sum(one.calls for one in connected)
        return {CPU: process_time(), UP: up, DOWN: down, CALLS: calls}

    def note(self, entry: dict[str, Any]) -> None:
        """Write down a call that failed; what went well is seen at the server."""
        if "broken" in entry:
            with self._lock, (self.folder / "broken").open("a") as file:
                file.write(json.dumps(entry) + "\n")


def main() -> None:
    """Run devices until this process is told to end: ADDRESS CA KEYS FOLDER SECONDS NAME...

    SECONDS between two looks; 0: as a SuperNode's, which are more and more.
    """
    address, ca, keys, folder, look, *names = sys.argv[1:]
    connection.HEARTBEAT, connection.BEAT, device.AGAIN_SECONDS = HEARTBEAT, BEAT, 0.0
    device.pause = (lambda idle: float(look)) if float(look) else pause
    threading.stack_size(256 * 1024)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    crowd = Crowd(Path(folder), float(look))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(crowd.let_in(address, Path(ca), Path(keys)), names))
    (crowd.folder / THERE).write_text(str(len(names)))
    while not ended.wait(0.5):
        write_whole(crowd.folder / TAKEN, json.dumps(crowd.taken()).encode())
    for one in crowd.devices:
        one.stop()
