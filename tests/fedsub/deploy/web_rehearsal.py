"""A rehearsal in which one device is the one in TypeScript, in Node; the others are Python's."""

import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from fedsub.deploy.components import HOST
from fedsub.deploy.processes import Child
from fedsub.engines.rehearsal import _DEVICES, Rehearsal
from fedsub_core.config.run_config import RunConfig

#: What `npm run build` makes.
DEVICE = Path(__file__).parents[3] / "web" / "dist" / "device.js"


class WithWebDevice(Rehearsal):
    """A rehearsal whose client `web` has the device in TypeScript.

    Parameters
    ----------
    waits : seconds after which the device is killed, one after the other; in the middle it is the
        SuperLink. Both are started again.
    """

    def __init__(
        self, config: RunConfig, clients: int, web: str, waits: Sequence[float] = ()
    ) -> None:
        super().__init__(config, clients, print, print)
        self.web, self.waits, self.killed = web, waits, 0

    def _start_devices(self) -> None:
        self.child = self._start_web()
        at = self.clients.index(self.web)
        everybody, ports = self.clients, self.node_ports
        self.clients = [client for client in everybody if client != self.web]
        self.node_ports = ports[:at] + ports[at + 1 :]
        super()._start_devices()
        self.clients, self.node_ports = everybody, ports
        self.supervisor.wait_until(lambda: "is active" in self.said, "web device", self.patience)
        threading.Thread(target=self._kill, daemon=True).start()

    def _kill(self) -> None:
        (link,) = (one for one in self.supervisor.children if one.name == "superlink")
        for place, wait in enumerate(self.waits):
            time.sleep(wait)
            process = (link if place == len(self.waits) // 2 else self.child).process
            if self.supervisor.restarting and process.poll() is None:
                process.kill()
                self.killed += 1

    def _start_web(self) -> Child:
        place = self.place
        node = shutil.which("node")
        assert node is not None and DEVICE.is_file(), "no Node or no device: run `make web`"
        command = [node, str(DEVICE), "--superlink", f"{HOST}:{self.fleet}"]
        command += ["--ca", str(place.credentials.ca), "--key", str(place.key(self.web))]
        command += ["--data", str(place.device(self.web) / "clients" / f"{self.web}.npz")]
        command += ["--state", str(place.folder / "web"), "--look", "0.2"]
        if self.config.secure_aggregation:
            roster = place.roster_settings(self.web)
            command += ["--roster", roster["secure-roster"], "--owner", roster["secure-owner"]]
        # Its clock is a day ahead.
        clock = place.folder / "clock.mjs"
        clock.write_text("const now = Date.now; Date.now = () => now() + 86400000;")
        env, name = {"NODE_OPTIONS": f"--import {clock}"}, f"web-{self.web}"
        return self.supervisor.start(
            name, command, env, place.log(name), rank=_DEVICES, restart=True
        )

    @property
    def said(self) -> str:
        """What the web device said."""
        return self.place.log(f"web-{self.web}").read_text(errors="replace")
