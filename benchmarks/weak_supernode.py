"""What a deployed weak device needs: a SuperNode whose memory is limited to its share's.

    python benchmarks/weak_supernode.py [--capacity 0.125] [--margin 24] [--model har-cnn]

Rehearses deployments of two people on this machine (`fedsub deploy local`): SuperLink, SuperNodes,
TLS. Without a limit `heterofl` trains at a capacity, and the most writable memory of the weak
device's ClientApps is noted. Then with that and a margin as their limit (RLIMIT_DATA) `heterofl`
and `fedavg` train: who dies there could not take part.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.errors import RunError
from fedsub_server.run_folder import METRICS_FILE

STRONG, WEAK = "01", "02"
ROUNDS = 1
MIB = 2**20
TINY = ["--capacity", "0.125", "--margin", "24"]
#: What the lines of results begin with.
LINES = (
    "without a limit, heterofl at 0.125: 1 of 1",
    "heterofl with a limit: it trains",
    "fedavg with a limit: it dies",
)
SLOW = True


class Limited(Rehearsal):
    """A rehearsal in which the weak device's apps have so much writable memory; 0: any."""

    limit = 0
    #: The most that a process of them had, bytes.
    most = 0

    def _start(self, name: str, command: list[str], rank: int) -> None:
        weak = name == f"supernode-{WEAK}-superexec"
        if weak and self.limit:
            command = ["prlimit", f"--data={self.limit}", "--", *command]
        super()._start(name, command, rank)
        if weak:
            child = next(one for one in self.supervisor.children if one.name == name)
            threading.Thread(target=self._watch, args=(child.process.pid,), daemon=True).start()

    def _watch(self, pid: int) -> None:
        """Note how much writable memory the process and its descendants have, while it lives."""
        while Path(f"/proc/{pid}/status").exists():
            for one in _descendants(pid):
                self.most = max(self.most, _data_bytes(one))
            time.sleep(0.005)


def _descendants(pid: int) -> list[int]:
    """Return a process and all that it started."""
    found, todo = [], [pid]
    while todo:
        found.append(one := todo.pop())
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):
                todo += map(int, path.read_text().split())
    return found


def _data_bytes(pid: int) -> int:
    """Return a process's writable memory of its own; 0 of one that ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def rounds_of(folder: Path, config: RunConfig) -> dict[str, int]:
    """Return how many rounds each person trained."""
    with Path(folder, config.method, METRICS_FILE).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "training_loss"]
    return {who: sum(row["client"] == who for row in rows) for who in (STRONG, WEAK)}


def rehearse(method: str, model: str, capacity: float, limit: int) -> tuple[int, int]:
    """Return how many rounds the weak device trained, and the most memory of its apps."""
    with tempfile.TemporaryDirectory() as out:
        keys = {"method": method, "beside": "", "model": model, "rounds": str(ROUNDS), "out": out}
        keys |= {"capacities": f"{WEAK}={capacity}", "round-timeout": "60", "quorum": "0.5"}
        config = read_config(None, keys)
        rehearsal = Limited(config, 2, lambda text: None, lambda finished: None)
        rehearsal.limit = limit
        trained = rounds_of(rehearsal(), config)
    if trained[STRONG] != ROUNDS:
        raise RunError(f"{method}: the strong device trained {trained[STRONG]} of {ROUNDS} rounds")
    return trained[WEAK], rehearsal.most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="har-cnn")
    parser.add_argument("--capacity", type=float, default=0.125)
    parser.add_argument("--margin", type=int, default=24, help="MiB")
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    if given.tiny:
        given = parser.parse_args([*TINY, *sys.argv[1:]])
    trained, most = rehearse("heterofl", given.model, given.capacity, 0)
    print(
        f"without a limit, heterofl at {given.capacity:g}: {trained} of {ROUNDS} rounds, "
        f"{most / MIB:.0f} MiB",
        flush=True,
    )
    limit = most + given.margin * MIB
    for method in ("heterofl", "fedavg"):
        trained, _ = rehearse(method, given.model, given.capacity, limit)
        said = "it trains" if trained == ROUNDS else "it dies"
        print(
            f"{method} with a limit: {said}, {trained} of {ROUNDS} rounds, {limit / MIB:.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
