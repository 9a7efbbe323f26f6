"""The folder of a deployed run with facts that a test chose, and who answers about one."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from platform import node
from typing import Any

from fedsub.status.endpoint import Endpoint
from fedsub.status.facts import Status
from fedsub_core.config.run_config import RunConfig, dump_toml, to_flat
from fedsub_core.metrics import MetricRow
from fedsub_server.live_file import LIVE_FILE
from fedsub_server.rundb import RunDatabase

#: A name that does things to a terminal that prints it as it is.
EVIL = "eve\n\x1b[2J\u202ereversed"
PEOPLE = ("ann", "bob", "cyd", EVIL)


def make_deployment(
    folder: Path,
    rounds: int = 10,
    done: int = 3,
    missing: tuple[str, ...] = (),
    refused: tuple[str, ...] = (),
    live: Mapping[str, Any] | None = None,
    **configured: Any,
) -> RunDatabase:
    """Make a run's folder, `done` rounds committed; return its open database, as a server has it.

    In the last of them `missing` did not answer, and `refused` sent what cannot be used. `live` is
    what the server says; None: it never said anything.
    """
    config = RunConfig(method="fedavg", beside="", rounds=rounds, data="/gone", **configured)
    (folder / "fedavg").mkdir(parents=True)
    (folder / "run.toml").write_text(dump_toml(config))
    flat = {key: value for key, value in to_flat(config).items() if "." not in key}
    database = RunDatabase(folder / "fedavg" / "state.db", flat)
    for round in range(1, done + 1):
        found = []
        for place, person in enumerate(PEOPLE):
            found.append(MetricRow(round, person, None, "bytes_down_sent", 1024))
            if round == done and person in (*missing, *refused):
                what = "missing_replies" if person in missing else "refused_replies"
                found.append(MetricRow(round, person, None, what, 1))
                continue
            found.append(MetricRow(round, person, None, "bytes_up_sent", 2048))
            found.append(MetricRow(round, person, None, "macro_f1", 0.2 * place))
        database.commit(round, {}, found)
    if live is not None:
        (folder / LIVE_FILE).write_text(json.dumps({**said(rounds, done), **live}))
    return database


def said(rounds: int, done: int) -> dict[str, Any]:
    """What a server says of itself in the round after `done`, all being well."""
    now = time.time()
    one = {
        "online": True,
        "version": "0.1.0",
        "capacity": 1.0,
        "usable": done,
        "refused": None,
        "rests_until": None,
        "seconds": 1.5,
        "since": "2026-01-02T03:04:05",
        "left_out": False,
    }
    people = {person: {**one, "node": 100 + i} for i, person in enumerate(PEOPLE)}
    return {
        "host": node(),
        "process": 1,
        "method": "fedavg",
        "rounds": rounds,
        "began": now - 60,
        "written": now,
        "round": done + 1,
        "finished": done,
        "phase": "training",
        "since": now - 5,
        "limit": 600.0,
        "asked": list(PEOPLE),
        "waited_for": [],
        "people": people,
        "turned_away": {},
        "ended": None,
    }


@contextmanager
def served(look: Callable[[], Status], names: bool = False) -> Iterator[str]:
    """Answer about what `look` finds, in a thread, on a port of loopback that is free."""
    with Endpoint(("127.0.0.1", 0), look, names) as endpoint:
        thread = threading.Thread(target=endpoint.serve)
        thread.start()
        try:
            yield endpoint.url
        finally:
            endpoint.stop()
            thread.join()
