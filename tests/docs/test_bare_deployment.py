"""The device built from docs/wire-format.md alone, in a deployment: TLS, keys, SuperNodes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.deploy.components import HOST, superexec, supernode
from fedsub.deploy.flower_process import flower_environment
from fedsub.engines.rehearsal import EAGER, Rehearsal
from fedsub.engines.simulation import train_method
from fedsub.testing.engine_tests import as_in_one_process
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import write_federation
from fedsub_core.flower.modules import HTTP, demand_deployable
from fedsub_server.rundb import RunDatabase

from .bare_setup import install, node_config, people, write_own_data

BARE, ROUNDS = "p3", 2
KEYS: dict[str, Any] = {
    # That it takes part in FedAvg, and tests what it is sent, is shown in one process.
    "method": "fedsub",
    "beside": "",
    "rounds": ROUNDS,
    # A deployment starts a process for every message.
    "evaluate-every": ROUNDS,
    "epochs": 3,
    "lr": 0.05,
    # One batch holds all of anybody's samples, so that its order does not matter.
    "batch-size": 1000,
    "upload-encoding": "delta",
    "device": "cpu",
    # In one process: as many stacks as clients, as devices have it.
    "threads": 3,
    "fedsub.relevance": "naive",
    "fedsub.k-selection": "fixed:1",
    "fedsub.fusion": "avg",
}


class WithBareDevice(Rehearsal):
    """A rehearsal in which one device is the bare one.

    Over HTTP it is a node by itself. Over gRPC a SuperNode runs its app: the app that a run names
    is ``fedsub_client.app``; on that person's machine a package of this name is the bare device,
    and stands before all others on Python's path.
    """

    def __init__(self, config: RunConfig, apps: Path) -> None:
        super().__init__(config, 3, print, print)
        self.apps = apps
        self.http = demand_deployable() == HTTP
        install(apps, "bare_device" if self.http else "fedsub_client")
        write_own_data(self.place.device(BARE), config, people(), BARE)

    def _start(self, name: str, command: list[str], rank: int) -> None:
        env = flower_environment(self.place.home(name)) | EAGER
        place, port = self.place, self.node_ports[self.clients.index(BARE)]
        settings, key = node_config(BARE, place.device(BARE)), place.key(BARE)
        if self.http and name.startswith(f"supernode-{BARE}"):
            if name.endswith("superexec"):
                return
            env["PYTHONPATH"] = os.pathsep.join([str(self.apps), env.get("PYTHONPATH", "")])
            at, ca = f"{HOST}:{self.fleet}", str(place.credentials.ca)
            command = [sys.executable, "-m", "bare_device", at, ca, str(key)]
            command.append(json.dumps(settings))
        elif name == f"supernode-{BARE}":
            command = supernode(place.credentials, self.fleet, port, key, settings)
        elif name == f"supernode-{BARE}-superexec":
            command = superexec(place.credentials, port)
            env["PYTHONPATH"] = str(self.apps)
        self.supervisor.start(name, command, env, place.log(name), rank=rank, restart=True)


@pytest.mark.slow
@pytest.mark.release
def test_it_takes_part_in_a_deployment(tmp_path: Path) -> None:
    write_federation(tmp_path / "data", people())
    places = {"data": str(tmp_path / "data"), "out": str(tmp_path / "out")}
    config = read_config(None, KEYS | places)
    rehearsal = WithBareDevice(config, tmp_path / "apps")
    folder = rehearsal()
    logs = rehearsal.place.logs
    # Nobody but the bare device keeps a state where our devices keep theirs.
    assert {path.name for path in rehearsal.place.state.iterdir()} == {"p1", "p2"}
    for method in config.methods:
        train_method(config, method, people(), tmp_path / method, lambda round: None)
        with RunDatabase(folder / method / "state.db") as database:
            assert database.last_round() == ROUNDS
            got, rows = as_in_one_process(database.load()[1]["server"]), list(database.metrics())
        with RunDatabase(tmp_path / method / "state.db") as database:
            wanted = database.load()[1]["server"]
        found = {
            (row.round, row.client): row.value for row in rows if row.metric == "bytes_up_sent"
        }
        everybody = {(round, f"p{i}") for round in range(1, ROUNDS + 1) for i in (1, 2, 3)}
        assert found.keys() == everybody, f"see {logs}"
        assert not {row.client for row in rows if row.metric == "refused_replies"}
        tested = {(row.round, row.client) for row in rows if row.metric == "macro_f1"}
        assert tested == {(ROUNDS, f"p{i}") for i in (1, 2, 3)}
        # Rounding aside, the server holds what it holds where all devices are ours.
        assert got.keys() == wanted.keys()
        for name, tensor in wanted.items():
            if name != "versions":  # a device's own name for its prototypes
                np.testing.assert_allclose(got[name], tensor, atol=1e-5, err_msg=name)
