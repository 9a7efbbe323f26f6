"""Start raw devices side by side: ``python -m raw_device ADDRESS CA KEYS JOURNAL NAME...``.

The key of a device lies in the folder KEYS under its name, which also says how it behaves. What
each sends, and how that ended, goes to the file JOURNAL, a line of JSON each.
"""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from .connection import Connection
from .device import POLL_SECONDS, Device
from .foresight import foresee, foresee_greeting
from .fuzz import fuzzer
from .openings import OPENINGS
from .replies import REPLIES, honest

MANNERS = {
    **OPENINGS,
    **REPLIES,
    "honest": honest,
    "foresight": foresee,
    "foresight-greeting": foresee_greeting,
}


def main(address: str, ca: str, keys: str, journal: str, *names: str) -> None:
    """Run the devices until this process is told to end."""
    ended, lock = threading.Event(), threading.Lock()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Path(journal).open("a", encoding="utf-8", buffering=1) as file:

        def note(entry: dict[str, Any]) -> None:
            with lock:
                file.write(json.dumps(entry) + "\n")

        devices = []
        for name in names:
            connection = Connection(address, Path(ca), Path(keys, name))
            note({"device": name, "kind": "node", "id": connection.node.node_id})
            manners = fuzzer(name) if name.startswith("fuzzer") else MANNERS[name]
            devices.append(Device(name, connection, manners, note))
        # As devices that know nothing of each other: they do not all look at the same moment.
        apart = POLL_SECONDS / len(devices)
        workers = [
            threading.Thread(target=device.work, args=(i * apart,), daemon=True)
            for i, device in enumerate(devices)
        ]
        for worker in workers:
            worker.start()
        ended.wait()
        for device in devices:
            device.stop()
        ours = [m for m in sys.modules if m.startswith(("fedsub", "strategies"))]
        sent = sum(device.connection.sent for device in devices)
        note({"kind": "ended", "modules": ours, "sent": sent})


if __name__ == "__main__":
    main(*sys.argv[1:])
