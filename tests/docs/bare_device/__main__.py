"""A device over HTTP: ``python -m PACKAGE ADDRESS CA KEY SETTINGS``, settings as JSON."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import RecordDict

from .app import Device, answered_records
from .fleet import Fleet, RunEnded

PAUSE = 0.5


def main(address: str, ca: str, key: str, settings: str) -> None:
    """Answer until the process is ended; what is kept of a run is kept in memory."""
    fleet, states = Fleet(address, Path(ca), Path(key)), dict[int, RecordDict]()
    print("SuperNode ID:", fleet.node.node_id, flush=True)
    while True:
        fleet.heartbeat()
        try:
            if (came := fleet.receive()) is None:
                time.sleep(PAUSE)
                continue
            told, records = came
            state = states.setdefault(told.run_id, RecordDict())
            context: Any = SimpleNamespace(node_config=json.loads(settings), state=state)
            said, error = None, ""
            try:
                said = answered_records(Device(context), told.message_type, records)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
                print(error, flush=True)
            fleet.reply(told, said, error)
        except RunEnded as ended:
            print("run ended:", ended, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
