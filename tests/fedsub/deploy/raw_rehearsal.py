"""A rehearsal in which raw devices, each with a registered key, stand beside the honest ones."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsub.deploy.components import CONNECTION, HOST
from fedsub.deploy.keys import make_node_key
from fedsub.engines.rehearsal import _DEVICES, Rehearsal
from fedsub_core.config.run_config import RunConfig

#: Registers keys one after another: a start of Flower's command line takes longer than all of them.
REGISTER = """
import sys
from flwr.cli.app import app
for public in sys.argv[2:]:
    name = public.rsplit("/", 1)[1].removesuffix(".pub")
    app(["supernode", "register", public, sys.argv[1], "--name", name], standalone_mode=False)
"""


class WithRawDevices(Rehearsal):
    """A rehearsal whose keys also let raw devices in; who is what, their names say."""

    def __init__(self, config: RunConfig, honest: int, raw: Sequence[str]) -> None:
        super().__init__(config, honest, print, print)
        self.raw = list(raw)
        for name in self.raw:
            make_node_key(self.place.key(name))

    def _register_keys(self) -> None:
        names = [*self.clients, *self.raw]
        keys = [f"{self.place.key(name)}.pub" for name in names]
        command = [sys.executable, "-c", REGISTER, CONNECTION, *keys]
        log = self.place.log("register")
        task = self.supervisor.start("register", command, self.cli, log, task=True)
        self.supervisor.finish([task], self.patience)
        # Flower exits with 0 when it fails, too.
        assert task.output().count("registered successfully") == len(names), task.output()

    @property
    def journal(self) -> list[dict[str, Any]]:
        """What raw devices did so far."""
        file = self.place.folder / "journal"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def start_raw(self, names: Sequence[str]) -> None:
        """Start some of the raw devices, in a process of their own; ended with all others."""
        place, before = self.place, len(self.nodes())
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMP_NUM_THREADS": "1",
        }
        where = [f"{HOST}:{self.fleet}", place.credentials.ca, place.folder / "keys"]
        command = [sys.executable, "-m", "raw_device", *map(str, where)]
        command += [str(place.folder / "journal"), *names]
        self.supervisor.start("raw", command, env, place.log("raw"), rank=_DEVICES)
        self.supervisor.wait_until(
            lambda: len(self.nodes()) == before + len(names), "raw devices", 60
        )

    def nodes(self) -> dict[str, int]:
        """The node ids of raw devices, by name."""
        return {e["device"]: e["id"] for e in self.journal if e.get("kind") == "node"}

    def log(self, name: str = "superlink-superexec") -> str:
        """What a process said; the ServerApp's words are among its SuperExec's."""
        return self.place.log(name).read_text(errors="replace")
