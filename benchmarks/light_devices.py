"""Light devices, many in one process: they pull, and answer without training.

Each has a key, a TLS connection and a thread of its own, beats and looks as a SuperNode does, and
answers with an upload that was made before. They are the raw devices of the tests
(`tests/fedsub/deploy/raw_device`), with numpy and protobuf alone.
"""

from __future__ import annotations

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

from tests.fedsub.deploy.raw_device import connection, device
from tests.fedsub.deploy.raw_device.connection import Connection
from tests.fedsub.deploy.raw_device.device import Device, Question
from tests.fedsub.deploy.raw_device.objects import config_record, content, metric_record, payload

#: Seconds in which a SuperNode is heard of: Flower's own.
HEARTBEAT = 30.0
#: Devices that are let in at once.
AT_ONCE = 8
#: Where the devices write how many are there, and their CPU seconds so far: names of files.
THERE, CPU = "there", "cpu"
RESULT = {"macro_f1": 0.5, "weighted_f1": 0.5, "accuracy": 0.5, "loss": 1.0, "examples": 43.0}


def round_field(round: int) -> bytes:
    """Return the field `round` of an upload: a later field of a message stands for itself."""
    number = bytearray(b"\x18")
    while round > 0x7F:
        number.append(round & 0x7F | 0x80)
        round >>= 7
    return bytes([*number, round])


@dataclass(frozen=True)
class Made:
    """What a device says: of itself, and as its uploads of the first and of any later round."""

    introduction: dict[str, Any]
    first: bytes
    later: bytes

    def write(self, folder: Path, name: str) -> None:
        """Write it for the device's process."""
        (folder / f"{name}.json").write_text(json.dumps(self.introduction))
        (folder / f"{name}.first").write_bytes(self.first)
        (folder / f"{name}.later").write_bytes(self.later)

    @classmethod
    def read(cls, folder: Path, name: str) -> Made:
        """Read what was written."""
        said = json.loads((folder / f"{name}.json").read_text())
        first, later = (folder / f"{name}.{which}" for which in ("first", "later"))
        return cls(said, first.read_bytes(), later.read_bytes())

    def answer(self, device: Device, question: Question) -> str:
        """Answer a question as a device does that has trained."""
        kind = question.metadata.message_type
        if kind == "query":
            greeted = question.records["handshake"]
            said = self.introduction | {"version": greeted["version"], "schema": greeted["schema"]}
            return device.send(question, content({"handshake": config_record(said)}))
        if kind == "evaluate":
            return device.send(question, content({"metrics": metric_record(RESULT)}))
        upload = self.first if question.round == 1 else self.later
        things = {"payload": payload(upload + round_field(question.round))}
        things["report"] = metric_record({"training_loss": 1.0})
        if question.records["turn"].get("evaluate"):
            things["metrics"] = metric_record(RESULT)
        return device.send(question, content(things))


@dataclass
class Crowd:
    """The devices of this process, and what went wrong with them."""

    folder: Path
    look: float
    devices: list[Device] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def let_in(self, address: str, ca: Path, keys: Path) -> Callable[[str], None]:
        """Return what lets one device in and starts it."""

        def one(name: str) -> None:
            made, connected = Made.read(self.folder, name), Connection(address, ca, keys / name)
            own = Device(name, connected, made.answer, self.note)
            with self._lock:
                late = (len(self.devices) * 0.618 % 1) * self.look
                self.devices.append(own)
            threading.Thread(target=own.work, args=(late,), daemon=True).start()

        return one

    def note(self, entry: dict[str, Any]) -> None:
        """Write down a call that failed; what went well is seen at the server."""
        if "broken" in entry:
            with self._lock, (self.folder / "broken").open("a") as file:
                file.write(json.dumps(entry) + "\n")


def main() -> None:
    """Run devices until this process is told to end: ADDRESS CA KEYS FOLDER SECONDS NAME..."""
    address, ca, keys, folder, look, *names = sys.argv[1:]
    connection.HEARTBEAT, device.POLL_SECONDS = HEARTBEAT, float(look)
    threading.stack_size(256 * 1024)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    crowd = Crowd(Path(folder), float(look))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(crowd.let_in(address, Path(ca), Path(keys)), names))
    (crowd.folder / THERE).write_text(str(len(names)))
    while not ended.wait(0.5):
        (crowd.folder / CPU).write_text(str(process_time()))
    for one in crowd.devices:
        one.stop()
