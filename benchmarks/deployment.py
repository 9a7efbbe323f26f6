"""A real deployment on loopback: seconds, bytes on the network, memory of a device.

Three SuperNodes with TLS and keys (`fedsub deploy local`) run FedSub's rounds; the same with a
program for each message, as Flower's SuperExec starts them; then a bare Flower app (one message of
270 KiB there and back, no torch) through Flower's processes and with the same polling.
Bytes are those of the TCP connections to the SuperLink's fleet port, as the kernel counts them
(`ss`, package iproute2); memory is the proportional set size of a SuperNode and what works for it.
"""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from processes import memory
from script import Known, read_arguments

from fedsub.deploy.seconds import LOOK_SECONDS, WARM_SECONDS
from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.options import Value

#: The deployments that are compared.
RUNS = ("FedSub", "a program a message", "bare Flower")
TINY = ["--rounds", "3", "--clients", "1", "--samples", "60", "--runs", "FedSub", "bare Flower"]
#: Deployments come up one after another: a minute or two, however tiny.
SLOW = True
LINES = (
    "start to first finished round",
    "seconds a round, median",
    "bytes up",
    "bytes down",
    "memory, most at once, a device, all its processes",
)
BARE_SERVER = """
import time
from pathlib import Path
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from fedsub_server.rundb import RunDatabase

app = ServerApp()

@app.main()
def main(grid, context):
    folder = Path(context.run_config["folder"]) / "local"
    folder.mkdir(parents=True, exist_ok=True)
    while len(list(grid.get_node_ids())) < int(context.run_config["min-clients"]):
        time.sleep(0.2)
    with RunDatabase(folder / "state.db", {"bare": True}) as database:
        for round in range(1, int(context.run_config["rounds"]) + 1):
            record = ArrayRecord()
            record["x"] = Array("uint8", (276480,), "raw", bytes([round]) * 276480)
            content = RecordDict({"x": record})
            sent = [Message(content, n, "train", group_id=str(round)) for n in grid.get_node_ids()]
            waiting = set(grid.push_messages(sent))
            while waiting:
                for reply in grid.pull_messages(list(waiting)):
                    waiting.discard(reply.metadata.reply_to_message_id)
                time.sleep(0.2)
            database.commit(round, {}, [])
"""
BARE_CLIENT = """
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    return Message(message.content, reply_to=message)
"""


@dataclass
class Watch:
    """Looks at a deployment from outside while it runs."""

    fleet: int
    folder: Path
    connections: dict[str, tuple[int, int]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Note the bytes of the nodes' connections and the memory of each part."""
        command = ["ss", "-tinHO", f"dport = :{self.fleet}"]
        for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
            name = line.split()[3]
            up = re.search(r"bytes_acked:(\d+)", line)
            down = re.search(r"bytes_received:(\d+)", line)
            self.connections[name] = (int(up[1]) if up else 0, int(down[1]) if down else 0)
        now: dict[str, float] = {}
        for part, pid in _processes(self.folder):
            now[part] = now.get(part, 0.0) + memory("Pss", pid, "smaps_rollup") / 2**20
        now["a device, all its processes"] = sum(v for k, v in now.items() if "device" in k)
        for part, mib in now.items():
            self.memory[part] = max(self.memory.get(part, 0.0), mib)


def _processes(folder: Path) -> list[tuple[str, int]]:
    """Return part and pid of the server's processes and the first device's."""
    homes = {
        f"{folder}/flower/superlink": "server",
        f"{folder}/flower/superlink-superexec": "server",
        f"{folder}/flower/supernode-c0": "device",
        f"{folder}/flower/supernode-c0-superexec": "device",
    }
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().decode(errors="replace").split("\0")
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        home = next((v[10:] for v in environment if v.startswith("FLWR_HOME=")), "")
        program = next(
            (Path(w).name for w in words if re.search("fl|fedsub", Path(w).name)), "other"
        )
        if home in homes:
            found.append((f"{homes[home]}: {program}", int(process.name)))
    return found


def deployed(
    config: RunConfig, clients: int, change: Callable[[Path], None] = lambda app: None
) -> None:
    """Rehearse `config`, with a `change` of its Flower app, and print what it took."""
    start = time.monotonic()
    seconds: dict[int, float] = {}
    rehearsal = Rehearsal(config, clients, lambda text: None, lambda round: None)
    watch, done = Watch(rehearsal.fleet, rehearsal.place.folder), threading.Event()

    def follow() -> None:
        while not done.wait(0.5):
            watch.look()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        with rehearsal.up():
            change(rehearsal.place.app)
            for finished in rehearsal.follow(rehearsal.submit()):
                seconds.setdefault(finished, time.monotonic() - start)
    finally:
        done.set()
        thread.join()
    rounds = [s for r, s in sorted(seconds.items()) if r > 0]
    steady = np.diff(rounds)[1:]
    print(f"  start to first finished round {rounds[0]:6.1f} s")
    print(f"  seconds a round, median       {np.median(steady):6.2f}  ({np.round(steady, 1)})")
    up, down = (sum(c[i] for c in watch.connections.values()) for i in (0, 1))
    own_up, own_down = accounted(rehearsal.place.run)
    for what, wire, own in (("up", up, own_up), ("down", down, own_down)):
        ratio = f"{wire / own:.3f} of our own accounting ({own / 2**20:.3f} MiB)" if own else ""
        print(f"  bytes {what:4} {wire / 2**20:8.3f} MiB on the fleet port, {ratio}")
    for what, mib in sorted(watch.memory.items()):
        print(f"  memory, most at once, {what:30} {mib:7.0f} MiB")


def accounted(folder: Path) -> tuple[float, float]:
    """Return the bytes up and down that a run's metrics state, Flower's message included."""
    database = sqlite3.connect(next(folder.rglob("state.db")))
    query = "SELECT total(value) FROM metrics WHERE metric = ?"
    up, down, evaluation = (
        float(database.execute(query, (f"bytes_{what}_flower",)).fetchone()[0])
        for what in ("up", "down", "evaluation")
    )
    return up, down + evaluation


def make_bare(app: Path) -> None:
    """Put the bare app in the place of ours."""
    path = app / "pyproject.toml"
    text = path.read_text().replace("fedsub_server.app:app", "bare.server:app")
    path.write_text(text.replace("fedsub_client.app:app", "bare.client:app"))
    (app / "bare").mkdir()
    (app / "bare" / "__init__.py").write_text("")
    (app / "bare" / "server.py").write_text(BARE_SERVER)
    (app / "bare" / "client.py").write_text(BARE_CLIENT)


def look_as_apart() -> None:
    """Have SuperNodes look for messages as seldom as on machines of their own, unless told."""
    os.environ.setdefault(LOOK_SECONDS, "3")


def small_federation(folder: Path, people: int, samples: int) -> str:
    """Write people with three features and six classes: the papers' HAR model."""
    rng = np.random.default_rng(0)
    clients = {}
    for i in range(people):
        y = np.arange(samples) % 6
        x = rng.normal(y[:, None] + 0.2 * i, 1.0, (samples, 3)).astype(np.float32)
        clients[f"c{i}"] = ClientData(f"c{i}", x, y)
    card = Card("small", "benchmark", tuple("abcdef"), ("x", "y", "z"))
    write_federation(folder, Federation(card, clients))
    return str(folder)


def main() -> None:
    arguments = read_arguments(
        TINY, rounds=8, clients=3, samples=(200, "of each client"), runs=Known(RUNS)
    )
    look_as_apart()
    with tempfile.TemporaryDirectory() as temporary:
        data = small_federation(Path(temporary, "data"), arguments.clients, arguments.samples)
        common: dict[str, Value] = {"data": data, "rounds": arguments.rounds, "out": temporary}
        fusing: dict[str, Value] = {
            "fedsub.k-selection": "fixed:1",
            "fedsub.fusion": "overlapping-any",
        }
        for name, own, warm, change in (
            ("FedSub", {"method": "fedsub", **fusing}, "600", lambda app: None),
            ("a program a message", {"method": "fedsub", **fusing}, "0", lambda app: None),
            ("bare Flower", {"method": "local"}, "0", make_bare),
        ):
            if name not in arguments.runs:
                continue
            print(name, flush=True)
            os.environ[WARM_SECONDS] = warm
            deployed(read_config(None, {**common, **own, "beside": ""}), arguments.clients, change)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
