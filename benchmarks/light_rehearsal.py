"""A rehearsed deployment whose devices are light, and what its server processes take."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from light_devices import CPU, THERE, Made

from fedsub.deploy.components import CONNECTION, HOST
from fedsub.engines.rehearsal import _DEVICES, Rehearsal
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.codec import Address, encode_upload
from strategies.rounds.server_half import State

ROOT = Path(__file__).resolve().parents[1]
MIB = 2**20
_TICKS = os.sysconf("SC_CLK_TCK")
#: Registers keys one after another: a start of Flower's command line takes longer than all of them.
REGISTER = """
import sys
from flwr.cli.app import app
for public in sys.argv[2:]:
    name = public.rsplit("/", 1)[1].removesuffix(".pub")
    app(["supernode", "register", public, sys.argv[1], "--name", name], standalone_mode=False)
"""
#: Processes of the server's side, by what their command lines hold.
PARTS = {"superlink": "fedsub-superlink", "serverapp": "flwr-serverapp"}


def made_by_training(config: RunConfig, people: Federation) -> dict[str, Made]:
    """Return what devices say that train: uploads of two rounds, all in this process."""
    grid, strategy = (
        build_grid(config, config.method, people),
        build_strategy(config, config.method),
    )
    uploads, aggregate = list[Mapping[str, Bundle]](), strategy.aggregate

    def noted(state: State, came: Mapping[str, Bundle], turn: Turn) -> Any:
        uploads.append(dict(came))
        return aggregate(state, came, turn)

    with patch.object(strategy, "aggregate", noted):
        strategy.connect(grid)
        for round in (1, 2):
            strategy.run_round(grid, round, 600, evaluated=False)
    grid.close()
    sends, made = strategy.transport.sends, dict[str, Made]()
    for name, data in people.clients.items():
        first, second = (encode_upload(one[name], Address(name, 2), sends) for one in uploads)
        x = data.x[: uploads[0][name].examples].astype(np.float64)
        said: dict[str, Any] = {
            "client": name,
            "classes": list(people.card.classes),
            "shape": list(x.shape[1:]),
            "examples": len(x),
            "capacity": 1.0,
            "count": len(x),
            "sum": x.sum(0).tolist(),
            "sumsq": (x**2).sum(0).tolist(),
        }
        made[name] = Made(said, first, second)
    return made


class LightRehearsal(Rehearsal):
    """A rehearsal with SuperLink, TLS and keys, in which one process plays all devices.

    Parameters
    ----------
    made : what each says.
    look : seconds between two looks of a device for a message.
    patience : seconds for each step of starting up.
    """

    def __init__(
        self, config: RunConfig, made: dict[str, Made], look: float, patience: float
    ) -> None:
        super().__init__(config, len(made), lambda text: None, lambda finished: None)
        self.made, self.look, self.patience = made, look, patience

    @property
    def answers(self) -> Path:
        """Where the devices read what they say, and write how they are."""
        return self.place.folder / "answers"

    def _register_keys(self) -> None:
        keys = [f"{self.place.key(name)}.pub" for name in self.made]
        command = [sys.executable, "-c", REGISTER, CONNECTION, *keys]
        log = self.place.log("register")
        task = self.supervisor.start("register", command, self.cli, log, task=True)
        self.supervisor.finish([task], self.patience)
        # Flower exits with 0 when it fails, too.
        assert task.output().count("registered successfully") == len(keys), task.tail()

    def _start_devices(self) -> None:
        place = self.place
        self.answers.mkdir()
        for name, said in self.made.items():
            said.write(self.answers, name)
        where = [f"{HOST}:{self.fleet}", place.credentials.ca, place.folder / "keys", self.answers]
        path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
        command = [sys.executable, "-c", "import light_devices; light_devices.main()"]
        command += [*map(str, where), str(self.look), *self.made]
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.supervisor.start("devices", command, env, place.log("devices"), rank=_DEVICES)
        there = self.answers / THERE
        self.supervisor.wait_until(there.exists, "devices connected", self.patience)


class Processes:
    """CPU seconds and peak memory of a rehearsal's processes, as of the last look."""

    def __init__(self, rehearsal: LightRehearsal) -> None:
        self._rehearsal = rehearsal
        self._found = dict[str, Path]()
        #: Of each part, and of all devices together.
        self.cpu: dict[str, float] = dict.fromkeys([*PARTS, "devices"], 0.0)
        self.peak: dict[str, float] = dict.fromkeys(PARTS, 0.0)

    def look(self) -> None:
        """Read what the system says of them; of what has ended the last look counts."""
        for part in PARTS.keys() - self._found.keys():
            self._find(part)
        for part, process in self._found.items():
            with suppress(OSError, ValueError, IndexError):
                _, _, said = (process / "stat").read_text().rpartition(")")
                user, system = said.split()[11:13]
                self.cpu[part] = (int(user) + int(system)) / _TICKS
                lines = (process / "status").read_text().splitlines()
                (high,) = (line for line in lines if line.startswith("VmHWM:"))
                self.peak[part] = int(high.split()[1]) * 1024 / MIB
        with suppress(OSError, ValueError):
            self.cpu["devices"] = float((self._rehearsal.answers / CPU).read_text())

    def _find(self, part: str) -> None:
        """Find a part among what this rehearsal's processes started."""
        todo = [child.process.pid for child in self._rehearsal.supervisor.children]
        while todo:
            process = Path("/proc", str(todo.pop()))
            with suppress(OSError):
                for path in process.glob("task/*/children"):
                    todo += map(int, path.read_text().split())
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if any(Path(word).name == PARTS[part] for word in words):
                    self._found[part] = process
