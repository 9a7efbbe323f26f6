"""The SuperLink's port for runs, as a service uses it: devices, runs, new runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import tomli_w

from fedsub.deploy.components import CONNECTION
from fedsub.deploy.flower_process import as_setting, flower_environment, flower_program
from fedsub.deploy.processes import Supervisor
from fedsub.service.state import APP, FLOWER, RUN, Settings
from fedsub_core.errors import RunError, cut
from fedsub_core.files import write_whole
from fedsub_core.flower.control import LinkNode, LinkRun, ask_superlink, stop_run
from fedsub_core.options import Value

#: Seconds that Flower's command line has to submit a run.
SUBMIT_SECONDS = 120.0
#: Runs that are looked through for one that is not of the newest.
MANY_RUNS = 1000


class Port(Protocol):
    """A SuperLink, for a service's runs in one folder."""

    def look(self, run: int) -> tuple[Sequence[LinkNode], Sequence[LinkRun]]:
        """Return registered nodes, and the runs of the service's folder, the newest first.

        `run` is sought however old it is. RunError: no SuperLink answers.
        """

    def submit(self, keys: Mapping[str, Value]) -> int:
        """Submit a run of the service's app with these keys of its own; return its number."""

    def stop(self, run: int) -> None:
        """Stop a run."""


@dataclass
class SuperLinkPort:
    """The port of a real SuperLink, whose runs Flower's command line submits.

    Parameters
    ----------
    folder : the service's.
    settings : what the operator decided last.
    children : starts the command line.
    """

    folder: Path
    settings: Settings
    children: Supervisor

    @property
    def _authority(self) -> bytes | None:
        if not (ca := self.settings.ca):
            return None
        try:
            return Path(ca).read_bytes()
        except OSError as error:
            raise RunError(f"{ca}: {error.strerror}, expected the SuperLink's ca.crt") from error

    def look(self, run: int) -> tuple[Sequence[LinkNode], Sequence[LinkRun]]:
        """Return nodes and runs: :meth:`Port.look`."""
        address, ca = self.settings.superlink, self._authority
        nodes, runs = ask_superlink(address, ca)
        if run and all(other.run != run for other in runs):
            nodes, runs = ask_superlink(address, ca, MANY_RUNS)
        return nodes, [one for one in runs if one.folder == str(self.folder / RUN)]

    def submit(self, keys: Mapping[str, Value]) -> int:
        """Submit a run: :meth:`Port.submit`."""
        home = self.folder / FLOWER
        environment = flower_environment(home)
        link = {"address": self.settings.superlink}
        if self.settings.ca:
            link["root-certificates"] = self.settings.ca
        config = {"superlink": {"default": CONNECTION, CONNECTION: link}}
        write_whole(home / "config.toml", tomli_w.dumps(config).encode())
        given = " ".join(f"{key}={as_setting(value)}" for key, value in keys.items())
        command = [flower_program("flwr"), "run", str(self.folder / APP), CONNECTION]
        log = home / "submit.log"
        log.unlink(missing_ok=True)
        task = self.children.start(
            "flwr run", [*command, "--run-config", given, "--format", "json"], environment, log,
            task=True,
        )  # fmt: skip
        self.children.finish([task], SUBMIT_SECONDS)
        printed = task.output()
        try:
            return int(json.loads(printed)["run-id"])
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"Flower did not start the run: {cut(printed.strip())}") from error

    def stop(self, run: int) -> None:
        """Stop a run: :meth:`Port.stop`."""
        stop_run(self.settings.superlink, self._authority, run)
