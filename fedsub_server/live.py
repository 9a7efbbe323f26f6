"""What a server knows of its devices while it runs, in a file beside the run's database.

The database has what rounds left behind. Who is connected since when, who is waited for and why
somebody was turned away is known to the process alone: it says so in ``live.json``, every few
seconds and only where something changed, for `fedsub status` to read.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fedsub_core.errors import FedSubError, cut
from fedsub_core.files import write_whole
from fedsub_server.live_file import BEAT_SECONDS, LIVE_FILE
from strategies.strategy import PersonalizedStrategy

log = logging.getLogger("fedsub")

#: Seconds between two looks at what changed.
LOOK_SECONDS = 2.0


class Live:
    """Keeps ``live.json`` in a run's folder true for as long as a ``with`` block lasts.

    A file that cannot be written is logged once, and ends no run.

    Parameters
    ----------
    folder : the run's.
    strategy : whose rounds the block drives; it is only read.
    """

    def __init__(self, folder: Path, strategy: PersonalizedStrategy) -> None:
        self.path, self.strategy = folder / LIVE_FILE, strategy
        self.began = time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="live.json", daemon=True)
        self._well = True

    def __enter__(self) -> Live:
        self._write(self._facts())
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        ended = "finished"
        if error is not None:
            ours = isinstance(error, FedSubError)
            ended = cut(error if ours else repr(error))
        self._write(self._facts() | {"ended": ended})

    def _keep(self) -> None:
        last: Mapping[str, Any] = {}
        while not self._over.wait(LOOK_SECONDS):
            facts = self._facts()
            due = facts["written"] - last.get("written", 0.0) >= BEAT_SECONDS
            if due or {**facts, "written": 0} != {**last, "written": 0}:
                self._write(facts)
                last = facts

    def _write(self, facts: Mapping[str, Any]) -> None:
        try:
            write_whole(self.path, (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())
        except FedSubError as error:
            if self._well:
                log.warning("who takes part cannot be written down: %s", error)
            self._well = False

    def _facts(self) -> dict[str, Any]:
        strategy, registry = self.strategy, self.strategy.registry
        transport, now, settings = strategy.transport, strategy.now, strategy.settings.rounds
        asked = set(transport.asked) if now.limit else set[str]()
        # Each is copied before it is gone through: the rounds go on meanwhile.
        last, retired = dict(registry.departures.nodes), set(registry.departures.retired)
        known, again = dict(registry.introductions), dict(strategy.memory.patience.again)
        usable, refused = dict(transport.usable), dict(transport.refused)
        online, nodes = set(registry.online), dict(registry.nodes)
        took, left_out = dict(strategy.transport.delivery.pace.took), strategy.memory.left_out
        answered = transport.delivery.answered
        people = {
            client: {
                "node": nodes.get(client, last.get(client)),
                "retired": client in retired,
                "online": client in online,
                "since": registry.since(client) if client in online else None,
                "version": known[client].version if client in known else None,
                "capacity": known[client].facts.capacity.share if client in known else None,
                "examples": known[client].facts.examples if client in known else None,
                "usable": usable.get(client),
                "refused": refused.get(client),
                "rests_until": again.get(client),
                "seconds": took.get(client),
                "left_out": client in left_out,
            }
            for client in sorted(last.keys() | nodes.keys() | again.keys() | left_out)
        }
        return {
            "host": platform.node(),
            "process": os.getpid(),
            "version": strategy.settings.version,
            "method": strategy.card.name,
            "rounds": settings.rounds,
            "quorum": settings.quorum,
            "min_clients": settings.min_clients,
            "began": self.began,
            "written": time.time(),
            "round": now.round,
            "finished": strategy.finished_rounds,
            "phase": now.phase,
            "since": now.since,
            "limit": now.limit,
            "asked": sorted(asked),
            "waited_for": sorted(asked - answered),
            "people": people,
            "turned_away": {
                str(node): why
                for node, why in dict(registry.turned_away).items()
                if node not in registry.forgotten
            },
            "ended": None,
        }
