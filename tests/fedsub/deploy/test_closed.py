"""A deployment is closed: who is not let in, and what is not taken from those who are.

One SuperLink on loopback with TLS. Its SuperNodes are set up as a device is: they hold the CA and a
key of their own, and no certificate.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedsub.deploy.certificates import make_certificates
from fedsub.deploy.components import CONNECTION, HOST, connection, superexec, superlink
from fedsub.deploy.flower_app import write_app
from fedsub.deploy.flower_process import (
    COMPLETED,
    as_setting,
    flower_environment,
    flower_program,
    free_ports,
    is_healthy,
    run_status,
)
from fedsub.deploy.keys import make_node_key
from fedsub.deploy.processes import Child, Supervisor
from fedsub.engines.rehearsal import EAGER
from fedsub.engines.rehearsal_folder import Workplace, make_workplace
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.options import Value
from fedsub_server.rundb import RunDatabase

from .raw_device.connection import answers_plainly, why_unsigned_is_refused
from .tampered import tampered_path

pytestmark = pytest.mark.slow

PATIENCE = 150.0
Environment = dict[str, str]


@dataclass
class Site:
    """A SuperLink with its SuperExec, and the SuperNodes that come to it."""

    place: Workplace
    supervisor: Supervisor
    nodes: dict[str, Child] = field(default_factory=dict)

    def __post_init__(self) -> None:
        place = self.place
        self.fleet, self.port = free_ports(2)
        command = superlink(place.credentials, self.fleet, self.port, place.folder / "link.db")
        self.link = self._start("superlink", command, rank=0)
        url, ca = f"https://{HOST}:{self.port}", place.credentials.ca
        self.supervisor.wait_until(lambda: is_healthy(url, ca), "SuperLink healthy", PATIENCE)
        self._start("superexec", superexec(place.credentials, self.port), rank=0)
        self.cli = flower_environment(place.home("cli"))
        config = connection(place.credentials, self.port)
        (place.home("cli") / "config.toml").write_text(config, encoding="utf-8")

    def flwr(self, *arguments: str) -> str:
        """What one of Flower's commands prints."""
        command = [flower_program("flwr"), *arguments]
        done = subprocess.run(
            command, env=self.cli, capture_output=True, text=True, timeout=PATIENCE
        )
        return done.stdout

    def register(self, *clients: str) -> None:
        with ThreadPoolExecutor() as pool:
            for said in pool.map(self._register, clients):
                assert json.loads(said)["success"], said

    def _register(self, client: str) -> str:
        public = f"{self.place.key(client)}.pub"
        return self.flwr("supernode", "register", public, CONNECTION, "--format", "json")

    def join(self, name: str, *identity: str, apps: Environment | None = None) -> Child:
        """Start a SuperNode that proves itself by `identity`, and its SuperExec if `apps`."""
        (port,) = free_ports(1)
        secret = ["--superexec-auth-secret-file", str(self.place.credentials.secret)]
        command = [flower_program("fedsub-supernode"), "--superlink", f"{HOST}:{self.fleet}"]
        command += [*identity, "--isolation", "process", *secret, "--port", str(port)]
        settings = {
            "client-id": name,
            "data": str(self.place.device(name)),
            "state-dir": str(self.place.state),
        }
        config = " ".join(f"{key}={as_setting(value)}" for key, value in settings.items())
        # A task: that it ends, or does not, is what is tested.
        node = self._start(name, [*command, "--node-config", config], rank=1, task=True)
        if apps is not None:
            command = [flower_program("fedsub-superexec"), "--insecure", *secret]
            command += ["--runtime-api-address", f"{HOST}:{port}"]
            self._start(f"{name}-superexec", command, rank=1, env=apps)
        self.nodes[name] = node
        return node

    def identity(self, key: str, ca: Path | None = None) -> list[str]:
        """Options of a SuperNode that trusts `ca` and shows a private key."""
        trusted = ["--root-certificates", str(ca or self.place.credentials.ca)]
        return [*trusted, "--auth-supernode-private-key", str(self.place.key(key))]

    def wait_until_connected(self, *names: str) -> None:
        nodes = [self.nodes[name] for name in names]
        self.supervisor.wait_until(lambda: all(map(node_id, nodes)), "connected", PATIENCE)

    def wait_until_ended(self, *nodes: Child) -> None:
        self.supervisor.wait_until(
            lambda: all(node.process.poll() is not None for node in nodes), "ended", PATIENCE
        )

    def online(self) -> set[str]:
        """Ids of the nodes that the SuperLink lists as online."""
        listed = json.loads(self.flwr("supernode", "list", CONNECTION, "--format", "json"))
        return {node["node-id"] for node in listed["nodes"] if node["status"] == "online"}

    def _start(
        self,
        name: str,
        command: list[str],
        rank: int,
        task: bool = False,
        env: Environment | None = None,
    ) -> Child:
        own = flower_environment(self.place.home(name)) | EAGER | (env or {})
        log = self.place.log(name)
        return self.supervisor.start(name, command, own, log, rank=rank, task=task)


def node_id(node: Child) -> str | None:
    """The id that the SuperLink gave a SuperNode, once it has let it in."""
    found = re.search(r"SuperNode ID: (\d+)", node.output())
    return found[1] if found else None


@pytest.fixture(scope="module")
def site(
    town: Callable[..., Federation], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The third device cheats."""
    folder = tmp_path_factory.mktemp("site")
    place = make_workplace(folder / "out", town(3))
    for name in ("stranger", "leaver"):
        make_node_key(place.key(name))
    cheating = {
        "PYTHONPATH": tampered_path(folder / "shim"),
        "FEDSUB_TEST_CHEAT": "p3",
        "FEDSUB_TEST_KEPT": str(folder / "kept"),
    }
    with Supervisor() as supervisor:
        site = Site(place, supervisor)
        site.register("p1", "p2", "p3", "leaver")
        for client, apps in (("p1", {}), ("p2", {}), ("p3", cheating)):
            site.join(client, *site.identity(client), apps=apps)
        yield site


def test_strangers_are_not_let_in(site: Site, tmp_path: Path) -> None:
    make_certificates(tmp_path / "other", ["localhost", HOST])
    ours, theirs = site.place.credentials.ca, tmp_path / "other" / "ca.crt"
    refused = [
        (site.join("stranger", *site.identity("stranger")), "Failed to activate SuperNode"),
        (site.join("keyless", "--root-certificates", str(ours)), "must be registered via the CLI"),
        (site.join("misled", *site.identity("leaver", theirs)), "CERTIFICATE_VERIFY_FAILED"),
        (site.join("plain", "--insecure", "--max-retries", "2"), "Connection attempt failed"),
    ]
    site.wait_until_ended(*(node for node, _ in refused))
    for node, words in refused:
        assert node.process.returncode == 1 and node_id(node) is None
        assert words in node.output() and "Exit Code: 305" in node.output()

    # Without a SuperNode: no TLS, then TLS and no key.
    address = f"{HOST}:{site.fleet}"
    assert not answers_plainly(address)
    for method in ("PullMessages", "PushMessages", "ActivateNode"):
        assert why_unsigned_is_refused(address, ours, method) == "UNAUTHENTICATED"

    # The SuperLink minded none of it: who is registered is let in, also now.
    leaver = site.join("leaver", *site.identity("leaver"))
    site.wait_until_connected("p1", "p2", "p3", "leaver")
    assert site.online() == {node_id(site.nodes[name]) for name in ("p1", "p2", "p3", "leaver")}

    # Who was unregistered is ended, and comes in with that key never again.
    site.flwr("supernode", "unregister", str(node_id(leaver)), CONNECTION)
    site.wait_until_ended(leaver)
    again = site.join("leaver", *site.identity("leaver"))
    site.wait_until_ended(again)
    assert again.process.returncode == 1
    with pytest.raises(AssertionError, match="already in use"):
        site.register("leaver")
    assert site.online() == {node_id(site.nodes[name]) for name in ("p1", "p2", "p3")}
    assert site.link.process.poll() is None


def test_a_device_that_cheats_is_refused_and_named(site: Site) -> None:
    site.wait_until_connected("p1", "p2", "p3")
    run = site.place.run
    keys: dict[str, Value] = {
        "rounds": 3,
        "min-clients": 3,
        "beside": "",
        "folder": str(run),
        "evaluate-every": 3,
    }
    write_app(site.place.app, read_config(None, keys))
    submitted = site.flwr("run", str(site.place.app), CONNECTION, "--format", "json")
    number = str(json.loads(submitted)["run-id"])
    # The log ends with the run.
    said = site.flwr("log", number, CONNECTION, "--stream")
    listed = site.flwr("list", CONNECTION, "--run-id", number, "--format", "json")
    assert run_status(listed) == COMPLETED, said
    with RunDatabase(run / "fedsub" / "state.db") as opened:
        assert opened.last_round() == 3
        refused = {(row.round, row.client): row.value for row in opened.metrics("refused_replies")}
        used = {(row.round, row.client) for row in opened.metrics("bytes_up_sent")}
        evaluated = {(row.round, row.client) for row in opened.metrics("macro_f1")}
    assert refused == {(2, "p3"): 1.0, (3, "p3"): 1.0}
    everybody = {(round, f"p{n}") for round in range(1, 4) for n in (1, 2, 3)}
    assert used == everybody - refused.keys()
    assert evaluated == {(3, "p1"), (3, "p2"), (3, "p3")}
    for fault in (
        "round 2, client p3: refused: client 'p3', round 2: round: got 1, expected 2",
        "round 3, client p3: refused: client 'p3', round 3: client id: got 'p1', expected 'p3'",
    ):
        assert fault in said
