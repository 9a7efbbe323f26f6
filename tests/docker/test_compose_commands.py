"""What compose.yml says works: its very commands, each where a container would run them.

No engine is needed. Each service gets a network namespace on its own networks and a read-only root
of its own with its volumes and secrets, and runs as the same user without capabilities.
"""

from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_server.rundb import RunDatabase

from .containers import Project
from .deployment import DEVICES, NODES, prepared

REACHES = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


def person(client: str, seed: int) -> ClientData:
    stream = np.random.default_rng(seed)
    y = np.tile(np.arange(3), 12)
    x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y]
    return ClientData(client, x.astype(np.float32), y)


@pytest.mark.slow
def test_the_commands_of_the_compose_file_run_a_federation(tmp_path: Path) -> None:
    card = Card("town", "a test", ("sit", "walk", "run"), ("a", "b", "c", "d"))
    people = {client: person(client, seed) for seed, client in enumerate(DEVICES)}
    with prepared(tmp_path, Federation(card, people)) as deployment:
        deployment.up()
        assert_who_reaches_whom(deployment.project)
        deployment.finish(deployment.submit('rounds=2 folder="/runs/first"'))
        assert not deployment.healthy("status")
        deployment.start("status")
        deployment.wait_until(lambda: deployment.healthy("status"), "status healthy")
        deployment.stop()
        assert_results(deployment.project)
        goodbyes = deployment.log("superlink").count("Deactivated node_id=")
        assert goodbyes == len(NODES), "SuperNodes did not say good-bye"


def assert_who_reaches_whom(project: Project) -> None:
    def reaches(name: str, host: str, port: int) -> bool:
        return project.run(name, ["python", "-c", REACHES, host, str(port)])[0] == 0

    networks = project.networks
    assert reaches("superexec", "control", 8000)
    assert reaches("supernode-1", "superlink", 9092)
    # Not by name, not at the address that it shares a network with, not at the one of the port.
    assert not reaches("supernode-1", "control", 8000)
    for network in ("fleet", "control", "public"):
        assert not reaches("supernode-1", networks.address("superlink", network), 8000)
    # What a SuperNode hears from its own SuperExec, another device's cannot tell it.
    assert reaches("superexec-1", networks.address("supernode-1", "device-1"), 9094)
    for network in ("fleet", "device-1"):
        assert not reaches("supernode-2", networks.address("supernode-1", network), 9094)
    # What sees a person's data reaches no server.
    for network in ("fleet", "control", "public"):
        assert not reaches("superexec-1", networks.address("superlink", network), 9092)


def assert_results(project: Project) -> None:
    runs = project.volume("runs")
    with RunDatabase(runs / "first" / "fedsub" / "state.db") as database:
        assert database.last_round() == 2
        rows = {(row.round, row.client) for row in database.metrics("macro_f1")}
    assert rows == {(round, client) for round in (1, 2) for client in DEVICES}
    for number, client in enumerate(DEVICES, 1):
        state = (project.volume(f"state-{number}") / client / "state.safetensors").stat()
        assert state.st_size > 100 and state.st_uid == 10001
