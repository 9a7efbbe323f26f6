"""The rehearsal of a deployment on one machine: SuperLink, SuperNodes and SuperExecs on loopback.

What differs from a deployment is only that all machines are this one, and that processes look for
work more often: every message goes through TLS, every SuperNode shows its registered key, and a
device has no data but its own.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fedsub.deploy.components import CONNECTION, HOST, connection, superexec, superlink, supernode
from fedsub.deploy.flower_app import write_app
from fedsub.deploy.flower_process import (
    COMPLETED,
    flower_environment,
    flower_program,
    free_ports,
    is_healthy,
    run_status,
)
from fedsub.deploy.processes import POLL_SECONDS, Child, Supervisor
from fedsub.deploy.seconds import LOOK_SECONDS
from fedsub.deploy.signals import EndSignals
from fedsub.engines.rehearsal_folder import Databases, choose_clients, make_workplace
from fedsub_core.capacity import of_people
from fedsub_core.config.named_code import code_named
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.sources import absolute_source, client_ids
from fedsub_core.errors import RunError
from fedsub_core.files import write_whole
from fedsub_server.run_folder import DATABASE_FILE

#: Seconds for a step of starting up, and as many more for each client: all share the cores.
START_SECONDS, START_SECONDS_EACH = 120.0, 10.0
#: How often processes look for work, unless the environment says it: seconds. No network or battery
#: is to be spared, and Flower's 1 s and 3 s pass for each of a round's messages.
EAGER = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1", LOOK_SECONDS: "0.5"}
# The server side goes last: SuperNodes whose SuperLink is gone hang when they are ended.
_SERVER, _DEVICES, _TASKS = 0, 1, 2

Say = Callable[[str], None]
Rounds = Callable[[int], None]


class Rehearsal:
    """A deployment on loopback of the run that `config` describes.

    Parameters
    ----------
    config : the run's configuration; methods beside the main one are run after it.
    clients : SuperNodes, one for each of the first clients of the run's data.
    say : told what has been reached, in words.
    progress : told how many rounds have finished, of all methods together.

    Raises DataError or RunError if the clients cannot be trained on, or the folder
    ``<out>/deploy-<time>`` cannot be made.
    """

    def __init__(self, config: RunConfig, clients: int, say: Say, progress: Rounds) -> None:
        federation = choose_clients(config, clients)
        self.clients = list(federation.clients)
        # Drawn among those who take part, and told to each device as its own word.
        said, everybody = federation.card.capacities, client_ids(config.data)
        of, seed = config.capacity_settings, config.seed
        self.capacities = of_people(of, seed, said, self.clients, known=everybody)
        self.place = make_workplace(Path(config.out), federation)
        run = str(self.place.run)
        data = absolute_source(config.data)
        least = max(clients, config.min_clients)
        # Nobody comes later: without a bound, who does not come would be waited for for ever.
        joining = config.join_timeout or START_SECONDS
        self.config = replace(
            config, data=data, out=run, folder=run, min_clients=least, join_timeout=joining
        )
        self.say, self.progress = say, progress
        self.patience = START_SECONDS + START_SECONDS_EACH * clients
        self.cli = flower_environment(self.place.home("cli"))
        self.fleet, self.port, *self.node_ports = free_ports(2 + clients)

    def __call__(self) -> Path:
        """Start everything, run all rounds, end everything; return the run's folder.

        Raises RunError if a process does not come up, the run fails or no round ends for too long;
        with the end of the log that tells why. Raises Interrupted if a signal asked us to end.
        Whatever is raised, no process is left.
        """
        with self.up():
            for finished in self.follow(self.submit()):
                self.progress(finished)
        return self.place.run

    @property
    def database(self) -> Path:
        """The database of the run's main method."""
        return self.place.run / self.config.method / DATABASE_FILE

    @contextmanager
    def up(self) -> Iterator[None]:
        """Have everything up that a run needs, while a ``with`` block lasts; raises as a call."""
        write_app(self.place.app, self.config)
        with EndSignals() as signals, Supervisor(signals=signals) as self.supervisor:
            self._start_server()
            self._register_keys()
            self._start_devices()
            # From here on what dies comes back, as a service manager would see to.
            self.supervisor.restarting = True
            yield

    def submit(self) -> str:
        """Start the run, from where its folder left off if it failed before; return its id."""
        task = self._flwr("submit", "run", str(self.place.app), CONNECTION, "--format", "json")
        self.supervisor.finish([task], self.patience)
        printed = task.output()
        try:
            run = str(json.loads(printed)["run-id"])
        except (ValueError, KeyError) as error:
            raise RunError(f"Flower did not start the run:\n{printed}") from error
        self.say(f"run {run} submitted")
        return run

    def follow(self, run: str) -> Iterator[int]:
        """Look after everything until the run has completed; yield the rounds finished so far.

        Raises RunError if the run fails, or no round ends for too long.
        """
        follower = self._flwr("run", "log", run, CONNECTION, "--stream")
        # A round is two exchanges, and before the first comes the handshake.
        limit = 2 * self.config.round_timeout + self.patience
        finished, deadline = 0, time.monotonic() + limit
        databases = Databases(self.place.run, self.config.methods)
        try:
            while True:
                self.supervisor.check()
                if (now := databases.finished()) > finished:
                    finished, deadline = now, time.monotonic() + limit
                yield finished
                # The log also ends where its connection broke.
                if follower.process.poll() is not None:
                    status = self._status(run)
                    if status.startswith("finished"):
                        break
                    self.supervisor.end([follower])
                    follower = self._flwr("run", "log", run, CONNECTION, "--stream")
                if time.monotonic() > deadline:
                    raise RunError(f"no round ended for {limit:.0f} s:\n{follower.tail()}")
                time.sleep(POLL_SECONDS)
            self.supervisor.end([follower])
            if status != COMPLETED:
                raise RunError(
                    f"the run ended as {status}: {_why(follower)}\nAll logs: {self.place.logs}"
                )
            yield databases.finished()
        finally:
            databases.close()

    def _start_server(self) -> None:
        place, port = self.place, self.port
        database = place.folder / "link.db"
        command = superlink(place.credentials, self.fleet, port, database)
        self._start("superlink", command, _SERVER)
        url, ca = f"https://{HOST}:{port}", place.credentials.ca
        self.supervisor.wait_until(lambda: is_healthy(url, ca), "SuperLink healthy", self.patience)
        self._start("superlink-superexec", superexec(place.credentials, port), _SERVER)
        config = connection(place.credentials, port)
        write_whole(place.home("cli") / "config.toml", config.encode())
        self.say(f"SuperLink: TLS, for SuperNodes at {HOST}:{self.fleet}, for runs at {url}")

    def _register_keys(self) -> None:
        tasks = []
        for client in self.clients:
            public = f"{self.place.key(client)}.pub"
            arguments = ["supernode", "register", public, CONNECTION, "--name", client]
            tasks.append(self._flwr(f"register-{client}", *arguments))
        self.supervisor.finish(tasks, self.patience)
        self.say(f"keys of {len(tasks)} SuperNodes registered")

    def _start_devices(self) -> None:
        place = self.place
        for client, port in zip(self.clients, self.node_ports, strict=True):
            settings: dict[str, str | float] = {
                "client-id": client,
                "data": str(place.device(client)),
                "state-dir": str(place.state),
            }
            if not (own := self.capacities[client]).drawn:
                settings["capacity"] = own.share
            settings |= code_named(self.config)
            if self.config.secure_aggregation:
                settings |= place.roster_settings(client)
            key = place.key(client)
            command = supernode(place.credentials, self.fleet, port, key, settings)
            self._start(f"supernode-{client}", command, _DEVICES)
            command = superexec(place.credentials, port)
            self._start(f"supernode-{client}-superexec", command, _DEVICES)
        # `flwr supernode list` would also show nodes of before a restart as online.
        logs = [place.log(f"supernode-{client}") for client in self.clients]
        self.supervisor.wait_until(
            lambda: all("SuperNode ID" in log.read_text(errors="replace") for log in logs),
            "all SuperNodes connected",
            self.patience,
        )
        self.say(f"SuperNodes connected: {', '.join(self.clients)}")

    def _status(self, run: str) -> str:
        task = self._flwr("status", "list", CONNECTION, "--run-id", run, "--format", "json")
        # It fails while the SuperLink is started again, which is no reason to give up.
        self.supervisor.finish([task], self.patience, well=False)
        return run_status(task.output())

    def _start(self, name: str, command: list[str], rank: int) -> None:
        env = EAGER | flower_environment(self.place.home(name))
        self.supervisor.start(name, command, env, self.place.log(name), rank=rank, restart=True)

    def _flwr(self, name: str, *arguments: str) -> Child:
        log = self.place.log(name)
        log.unlink(missing_ok=True)
        command = [flower_program("flwr"), *arguments]
        return self.supervisor.start(name, command, self.cli, log, rank=_TASKS, task=True)


def _why(follower: Child) -> str:
    """Return our own error in a run's log, without its traceback; else the log's end."""
    errors = re.findall(r"^fedsub_core\.errors\.\w+: (.+)$", follower.output(), re.MULTILINE)
    return errors[-1] if errors else f"\n{follower.tail()}"
