"""What a weak device needs, in a simulation and as a SuperNode with no more memory than that.

A watch's person trains `heterofl` at each capacity, and `fedavg`, whose model is the whole one: CPU
seconds of a round's training, memory, bytes of what is kept and of an upload. Then each again with
that memory and a margin (RLIMIT_DATA): who dies there could not take part.

The simulation is `weak_device.py`'s, one process a device; its memory comes on top of the imports.
Deployments are rehearsed on this machine (`fedsub deploy local`): SuperLink, SuperNodes, TLS, one
strong device beside the weak ones. Memory is the most writable of a device's ClientApps, imports
included, and seconds are those of the ClientApp that worked longest.
"""

import csv
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

from processes import cpu_seconds, descendants, memory
from script import put_lines, read_arguments
from weak_device import alone  # a script beside this one

from fedsub.engines.rehearsal import Rehearsal
from fedsub_client.store import STATE_FILE, kept_as
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.errors import RunError
from fedsub_server.run_folder import METRICS_FILE

STRONG, PERSON = "00", "01"
ROUNDS = 1
MIB = 2**20
TINY = ["--capacities", "0.125", "--margin", "24", "--patience", "30", "--shares-only"]
LINES = (
    "simulation, heterofl, 1/8:",
    "simulation, in the memory of 1/8: heterofl",
    "deployed, heterofl, 1/8:",
    "deployed, in the memory of 1/8: heterofl trains",
    "deployed, in the memory of 1/8: fedavg dies",
)
SLOW = True
HEAD = (
    "where", "method", "share", "s", "MiB", "MB on disk", "MB on the wire",
    "with its memory", "fedavg with its memory",
)  # fmt: skip


@dataclass(frozen=True)
class Need:
    """What a device takes: CPU seconds of a round, bytes, and how many rounds it trained."""

    seconds: float
    memory: int
    disk: int
    wire: int
    trained: int = ROUNDS

    def __str__(self) -> str:
        """Return the numbers as a line of results says them."""
        return (
            f"{self.seconds:.2f} s, {self.memory / MIB:.0f} MiB, {self.disk / 1e6:.2f} MB on disk, "
            f"{self.wire / 1e6:.2f} MB on the wire"
        )


class Limited(Rehearsal):
    """A rehearsal in which some devices' apps have so many bytes of writable memory, by client."""

    limits: Mapping[str, int]

    def watched(self, limits: Mapping[str, int]) -> Path:
        """Run it; note each device's most memory and the seconds of its ClientApps."""
        self.limits, self.most = limits, Counter[str]()
        self.seconds: dict[tuple[str, int], float] = {}
        return self()

    def _start(self, name: str, command: list[str], rank: int) -> None:
        client = name.removeprefix("supernode-").removesuffix("-superexec")
        apps = name == f"supernode-{client}-superexec"
        if apps and client in self.limits:
            command = ["prlimit", f"--data={self.limits[client]}", "--", *command]
        super()._start(name, command, rank)
        if apps:
            child = next(one for one in self.supervisor.children if one.name == name)
            of = child.process.pid, client
            threading.Thread(target=self._watch, args=of, daemon=True).start()

    def _watch(self, pid: int, client: str) -> None:
        """Look at a SuperExec and its descendants while it lives."""
        while Path(f"/proc/{pid}/status").exists():
            for one, depth in descendants(pid):
                self.most[client] = max(self.most[client], memory("VmData", one))
                if depth > 1 and (took := cpu_seconds(one)):
                    # What forks ClientApps has the seconds of the imports.
                    self.seconds[client, one] = took
            time.sleep(0.02)


def town(people: Sequence[str]) -> Federation:
    """Return a federation of one person under several names: all train on as many samples."""
    watch = watch_federation()
    one = watch.clients[PERSON]
    return replace(watch, clients={name: replace(one, client=name) for name in people})


def deployed(
    methods: Sequence[str],
    model: str,
    shares: Sequence[float],
    limits: Mapping[float, int],
    patience: float,
) -> dict[tuple[str, float], Need]:
    """Return the needs of devices of some capacities, by method and capacity.

    Of several methods, which one deployment runs, each has the seconds and the memory of all.

    Parameters
    ----------
    limits : bytes of memory, by capacity.
    patience : seconds that a round waits for a device that died.

    Raises RunError if the strong device, which has no limit, does not train.
    """
    main, *others = methods
    names = {share: f"{i + 1:02}" for i, share in enumerate(shares)}
    people = [STRONG, *names.values()]
    with tempfile.TemporaryDirectory() as out:
        write_federation(Path(out, "data"), town(people))
        capacities = ",".join(f"{name}={share:g}" for share, name in names.items())
        keys = {"method": main, "beside": ",".join(others), "model": model, "out": out}
        keys |= {"rounds": str(ROUNDS), "data": str(Path(out, "data")), "capacities": capacities}
        config = read_config(None, keys | {"round-timeout": str(patience), "quorum": "0.1"})
        rehearsal = Limited(config, len(people), lambda text: None, lambda finished: None)
        folder = rehearsal.watched({names[share]: limit for share, limit in limits.items()})
        found = {}
        for method in methods:
            trained, sent = metrics(folder / method / METRICS_FILE)
            if trained[STRONG] != ROUNDS:
                got = f"the strong device trained {trained[STRONG]} of {ROUNDS} rounds"
                raise RunError(f"{method}: {got}")
            for share, name in names.items():
                took = [s for (who, _), s in rehearsal.seconds.items() if who == name]
                file = kept_as(STATE_FILE, method * (method != main))
                state = rehearsal.place.state / name / file
                found[method, share] = Need(
                    max(took, default=0.0),
                    rehearsal.most[name],
                    size(state),
                    sent[name] // ROUNDS,
                    trained[name],
                )
        return found


def metrics(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how many rounds each client trained, and how many bytes it sent in them."""
    trained, sent = Counter[str](), Counter[str]()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            trained[row["client"]] += row["metric"] == "training_loss"
            if row["metric"] == "bytes_up_sent":
                sent[row["client"]] += int(float(row["value"]))
    return trained, sent


def size(path: Path) -> int:
    """Return a file's bytes; 0 where there is none, as of a device that died."""
    return path.stat().st_size if path.exists() else 0


def simulated(
    methods: Sequence[str], model: str, shares: Sequence[float], limits: Mapping[float, int]
) -> dict[tuple[str, float], Need]:
    """Return the needs of processes that compute what a device does, as :func:`deployed`."""
    x = watch_federation().clients[PERSON].x
    found = {}
    for method, share in product(methods, shares):
        limit = -(-limits.get(share, 0) // MIB)
        took = alone(model, x.shape[1:], len(x), share, limit, method)
        found[method, share] = (
            Need(0, 0, 0, 0, 0)
            if took is None
            else Need(took.seconds, took.memory, took.disk, took.wire)
        )
    return found


def main() -> None:
    given = read_arguments(
        TINY,
        model="har-cnn",
        capacities=[1, 0.5, 0.25, 0.125],
        margin=(24, "MiB"),
        patience=(60.0, "seconds of a deployed round"),
        shares_only=(False, "without FedAvg's whole model"),
        out=Path,
    )
    shares, table = given.capacities, list[Sequence[object]]()
    in_deployments = partial(deployed, patience=given.patience)
    for where, take in (("simulation", simulated), ("deployed", in_deployments)):
        if not given.shares_only:
            whole = take(["fedavg"], given.model, shares[:1], {})["fedavg", shares[0]]
            print(f"{where}, fedavg, whole: {whole}", flush=True)
            table.append([where, "fedavg", "whole", *cells(whole), "", ""])
        free = take(["heterofl"], given.model, shares, {})
        limits = {s: free["heterofl", s].memory + given.margin * MIB for s in shares}
        held = take(["heterofl", "fedavg"], given.model, shares, limits)
        for share in shares:
            name = str(Fraction(share))
            need, fates = free["heterofl", share], list[str]()
            print(f"{where}, heterofl, {name}: {need}", flush=True)
            for method in ("heterofl", "fedavg"):
                trained = held[method, share].trained
                fates.append("trains" if trained == ROUNDS else "dies")
                print(
                    f"{where}, in the memory of {name}: {method} {fates[-1]}, {trained} of "
                    f"{ROUNDS} rounds, {limits[share] / MIB:.0f} MiB",
                    flush=True,
                )
            table.append([where, "heterofl", name, *cells(need), *fates])
    put_lines(given.out, HEAD, table, 3)


def cells(need: Need) -> list[str]:
    """Return the cells of a device in a row of the table."""
    small = [f"{need.disk / 1e6:.3g}", f"{need.wire / 1e6:.3g}"]
    return [f"{need.seconds:.2f}", f"{need.memory / MIB:.0f}", *small]


if __name__ == "__main__":
    main()
