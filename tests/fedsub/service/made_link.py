"""A SuperLink and a clock that a test makes: runs end as the test says, rounds are on the disk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedsub.service.service_folder import make_service
from fedsub.service.state import RUN, ServiceFile, Settings
from fedsub.service.supervisor import ServiceSupervisor
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import RunError
from fedsub_core.files import make_folder
from fedsub_core.flower.control import LinkNode, LinkRun
from fedsub_server.rundb import RunDatabase


class Killed(BaseException):
    """The process was killed here."""


@dataclass
class MadeLink:
    """A SuperLink of a service.

    Parameters
    ----------
    folder : the service's.
    now : seconds since 1970.
    connected : devices, by name.
    answers : whether it can be reached.
    dies : "before" or "after" a run is submitted, the supervisor is killed; "" for never.
    """

    folder: Path
    now: float = 1e9
    connected: list[str] = field(default_factory=lambda: ["p1", "p2", "p3"])
    answers: bool = True
    dies: str = ""
    runs: list[LinkRun] = field(default_factory=list)
    submitted: list[Mapping[str, object]] = field(default_factory=list)

    def look(self, run: int) -> tuple[Sequence[LinkNode], Sequence[LinkRun]]:
        if not self.answers:
            raise RunError("got no answer")
        nodes = [LinkNode(n, c, "online", "", "", 1.0, 30.0) for n, c in enumerate(self.connected)]
        return nodes, list(reversed(self.runs))

    def submit(self, keys: Mapping[str, object]) -> int:
        if self.dies == "before":
            raise Killed
        assert all(run.status.startswith("finished") for run in self.runs), "two runs at once"
        self.submitted.append(keys)
        run = 100 + len(self.runs)
        self.runs.append(LinkRun(run, "running", "", "", "", 0, 0, str(keys["folder"])))
        if self.dies == "after":
            raise Killed
        return run

    def stop(self, run: int) -> None:
        self.end("finished:stopped")

    def end(self, status: str = "finished:completed", examples: int = 5, why: str = "") -> None:
        """End the run that goes on; one that completes has trained its rounds."""
        folder, last = self.folder.resolve() / RUN, self.runs[-1]
        self.runs[-1] = replace(last, status=status)
        make_folder(folder / "fedavg")
        if status == "finished:completed":
            target = self.submitted[-1]["rounds"]
            assert isinstance(target, int)
            with RunDatabase(folder / "fedavg" / "state.db", {}) as database:
                for round in range(database.last_round() + 1, target + 1):
                    database.commit(round, {"server": {}}, [])
        people = {client: {"examples": examples} for client in self.connected}
        live = {"people": people, "written": self.now, "ended": why or "finished"}
        (folder / "live.json").write_text(json.dumps(live))


def made_service(folder: Path, when: str, each: int = 1, **keys: object) -> MadeLink:
    """Make a service and its SuperLink."""
    config = read_config(None, {"method": "fedavg", "beside": "", "min-clients": 3, **keys})  # type: ignore[dict-item]
    make_service(folder, config, Settings(when, each, "127.0.0.1:1", "", {}))
    link = MadeLink(folder)
    with ServiceFile(folder) as file:
        file.put(created=link.now)
    return link


def look(link: MadeLink, times: int = 1) -> ServiceFile:
    """Let a new supervisor look, as if the one before had been killed; return its file, open."""
    for _ in range(times):
        file = ServiceFile(link.folder)
        supervisor = ServiceSupervisor(file, lambda settings: link, lambda: link.now)
        supervisor.look()
        link.now += 1.0
    return file
