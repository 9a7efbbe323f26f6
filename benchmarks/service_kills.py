"""What a service loses when its parts are killed: a round each, in a deployment on loopback.

``fedsub serve`` keeps three real devices going, over TLS. In each round a part gets SIGKILL, at a
moment: while a run is submitted, while a device trains, or once the round is committed. A process
that was killed is started again after 5 s, as a service manager would. What the server and the
devices have at the end is compared with a run to which nothing happens, bit for bit.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from script import put_rows, read_arguments

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # deployments that are killed are among the tests

from fedsub.deploy import processes  # noqa: E402
from fedsub.deploy.components import HOST  # noqa: E402
from fedsub.deploy.flower_process import flower_environment, flower_program  # noqa: E402
from fedsub.engines.rehearsal import EAGER  # noqa: E402
from fedsub.service.service_folder import make_service  # noqa: E402
from fedsub.service.state import FLOWER, RUN, ServiceFile, Settings  # noqa: E402
from fedsub_core.config.run_config import read_config  # noqa: E402
from fedsub_core.data.federation import write_federation  # noqa: E402
from fedsub_core.errors import RunError  # noqa: E402
from tests.fedsub.conftest import make_town  # noqa: E402
from tests.fedsub.deploy.conftest import CLIENTS, FUSING, Deployment  # noqa: E402
from tests.fedsub.deploy.equal_runs import assert_equal, assert_equal_devices  # noqa: E402
from tests.fedsub.deploy.test_soak import in_one_process  # noqa: E402
from tests.flower_patience import PATH  # noqa: E402

TINY = ["--kills", "serve:submitting", "--quick"]
#: A deployment comes up, however tiny.
SLOW = True
LINES = ("serve, submitting:",)
MOMENTS = ("submitting", "training", "committed")
SERVER = ("serve", "SuperLink", "SuperExec", "ServerApp")
PARTS = (*SERVER, "whole server", "SuperNode", "SuperExec of a device")
#: Of the others nothing is there while a run is submitted, or what it does is over then.
KILLS = [
    *(f"{part}:{moment}" for part in ("serve", "SuperLink", "whole server") for moment in MOMENTS),
    *(f"{part}:{moment}" for part in ("ServerApp", "SuperExec") for moment in MOMENTS[1:]),
    *(f"{part}:training" for part in PARTS[5:]),
]
HEAD = ("part", "moment", "seconds to the next round", "rounds lost", "bits equal")
#: Seconds that a step may take.
PATIENCE = 400.0
DEVICE = "p1"


@dataclass
class KilledService:
    """A service on a deployment, whose parts are killed."""

    deployment: Deployment
    folder: Path

    def start(self, method: str) -> None:
        """Make the service and serve it."""
        rehearsal = self.deployment.rehearsal
        ca = str(rehearsal.place.credentials.ca)
        settings = Settings("always", 1, f"{HOST}:{rehearsal.port}", ca, {})
        make_service(self.folder, rehearsal.config, settings)
        # What reads the run's database finds it here.
        rehearsal.place.run = self.folder / RUN
        command = [flower_program("fedsub"), "serve", str(self.folder)]
        env = EAGER | flower_environment(rehearsal.place.home("serve"))
        log = rehearsal.place.log("serve")
        rehearsal.supervisor.start("serve", command, env, log, restart=True)

    @property
    def finished(self) -> int:
        """The rounds that are on the disk."""
        with suppress(RunError):
            return max(self.deployment.rounds(), default=0)
        return 0

    def wait(self, condition: Callable[[], bool]) -> None:
        """Look after everything until `condition` holds."""
        self.deployment.rehearsal.supervisor.wait_until(condition, "killed service", PATIENCE)

    def kill(self, part: str, moment: str, state_after: Callable[[int], None]) -> tuple[float, int]:
        """Kill a part at a moment; return the seconds until the next round, and rounds lost."""
        d, round = self.deployment, self.finished + 1
        with ExitStack() as stack:
            if moment == "submitting":
                self.wait(lambda: bool(self.pids("flwr run")))
            elif moment == "training":
                stack.enter_context(d.kept_at_work(DEVICE))
                self.wait(lambda: bool(d.at_work(DEVICE)))
            else:
                self.wait(lambda: self.finished >= round)
                state_after(round)
            for pid in self.pids(part):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        since, before = time.monotonic(), round if moment == "committed" else round - 1
        self.wait(lambda: self.finished > before)
        lost = len(set(range(1, before + 1)) - set(d.rounds()))
        state_after(before + 1)
        return time.monotonic() - since, lost

    def pids(self, part: str) -> list[int]:
        """Return the processes of a part."""
        d = self.deployment
        if part == "whole server":
            return [pid for one in (*SERVER, "flwr run") for pid in self.pids(one)]
        if part == "ServerApp":
            return d.apps("superlink-superexec", "flwr-serverapp")
        if part == "flwr run":
            home = f"FLWR_HOME={self.folder / FLOWER}\0".encode()
            return [pid for pid in numbers() if home in environment(pid)]
        names = {
            "serve": "serve",
            "SuperLink": "superlink",
            "SuperExec": "superlink-superexec",
            "SuperNode": f"supernode-{DEVICE}",
            "SuperExec of a device": f"supernode-{DEVICE}-superexec",
        }
        return [d.pid(names[part])]


def numbers() -> Generator[int, None, None]:
    """Yield the numbers of all processes."""
    yield from (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def environment(pid: int) -> bytes:
    """Return the environment of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def measured(kills: Sequence[tuple[str, str]], folder: Path) -> list[dict[str, object]]:
    """Return a row for each kill."""
    town = make_town(CLIENTS)
    write_federation(folder / "data", town)
    places = {"data": str(folder / "data"), "out": str(folder / "out")}
    config = read_config(None, {**FUSING, **places, "min-clients": CLIENTS})
    service = KilledService(Deployment(config), folder / "service")
    states: dict[int, Any] = {}

    def keep(round: int) -> None:
        states[round] = service.deployment.server()

    took = []
    with service.deployment.rehearsal.up():
        service.start(config.method)
        for part, moment in kills:
            took.append((*service.kill(part, moment, keep), service.finished))
            print(f"  {part}, {moment}: {took[-1][0]:.0f} s", flush=True)
        with ServiceFile(service.folder) as file:
            file.put(paused=True)
        service.wait(lambda: not file_of(service).target)
    rounds = service.finished
    if service.deployment.rounds() != list(range(1, rounds + 1)):
        raise RunError(f"rounds: got {service.deployment.rounds()}, expected 1 to {rounds}")
    reference = in_one_process(replace(config, rounds=rounds), town, folder / "one")
    equal = {round: is_equal(state, reference[round]["server"]) for round, state in states.items()}
    assert_equal(service.deployment.server(), reference[rounds]["server"])
    assert_equal_devices(service.deployment, rounds, reference[rounds], folder / "one" / "models")
    return [
        dict(zip(HEAD, (*kill, f"{seconds:.0f}", lost, equal[round]), strict=True))
        for kill, (seconds, lost, round) in zip(kills, took, strict=True)
    ]


def file_of(service: KilledService) -> Any:
    """Return where the service stands."""
    with ServiceFile(service.folder) as file:
        return file.state


def is_equal(ours: Any, theirs: Any) -> str:
    """Return "yes" where two states are equal, bit for bit, else "no"."""
    try:
        assert_equal(ours, theirs)
    except AssertionError:
        return "no"
    return "yes"


def main() -> None:
    given = read_arguments(
        TINY, kills=[*KILLS], quick=(False, "Flower notices deaths within 30 s"), out=Path
    )
    os.environ["OMP_NUM_THREADS"] = "1"
    if given.quick:
        processes.RESTART_PAUSE = 1.0
        paths = [*PATH, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    kills = [(part, moment) for part, _, moment in (kill.partition(":") for kill in given.kills)]
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(kills, Path(folder))
    for row in rows:
        part, moment, seconds, lost, equal = row.values()
        print(f"{part}, {moment}: {seconds} s, rounds lost {lost}, bits equal {equal}", flush=True)
    put_rows(given.out, rows, HEAD[:2])


if __name__ == "__main__":
    main()
