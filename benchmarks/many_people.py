"""Seconds, the driver's memory and disk of rounds of many people, on one machine and on Ray nodes.

Real federations have few people: these are made of one by repetition. Each has windows of a real
person, drawn with a seed of its own, of which `--samples` are for training. `one` is this process
alone, `two` a Ray cluster of two nodes on this machine, one core each. Each run is in a process of
its own; what it leaves must be the same bytes at every place.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from script import REAL, Known, put_rows, read_arguments
from study_engines import two_nodes  # a script beside this one

from fedsub.engines.peak_memory import peak_bytes
from fedsub.engines.simulation import MakeGrid, build_grid, ray_grids
from fedsub.studies.run import train_methods
from fedsub_core.config.run_config import read_config
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, read_federation
from fedsub_server.run_folder import DATABASE_FILE, METRICS_FILE, MODELS

TINY = ["--people", "6", "--rounds", "2", "--methods", "fedavg"]
#: Nodes come up one after another, however few the people.
SLOW = True
LINES = ("fedavg, 6 people, one:", "fedavg, 6 people, two:")
#: Share of people's samples that is for training.
TRAIN = 0.7


def repeated(real: Federation, people: int, samples: int) -> Federation:
    """Return a federation of so many people, each with samples of a person of another, drawn."""
    of = list(real.clients.values())
    clients, size = {}, round(samples / TRAIN)
    for i in range(people):
        one = of[i % len(of)]
        rows = np.random.default_rng(i).choice(len(one.y), min(size, len(one.y)), replace=False)
        rows.sort()
        clients[f"{i:06d}"] = ClientData(f"{i:06d}", one.x[rows], one.y[rows])
    return Federation(real.card, clients)


def alone(place: str, method: str, people: int, arguments: Namespace) -> dict[str, object]:
    """Train a method in this process; return what it took and left."""
    federation = repeated(read_federation(Path(arguments.data)), people, arguments.samples)
    said = {"method": method, "beside": "", "rounds": arguments.rounds, "device": "cpu",
            "checkpoint-seconds": 1e9, "split": "stratified"}  # fmt: skip
    ends: list[float] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make: MakeGrid = build_grid
        if place == "two":
            make = stack.enter_context(ray_grids(stack.enter_context(two_nodes())))

        def note(name: str, round: int) -> None:
            ends.append(time.perf_counter())

        train_methods(read_config(None, said), federation, folder, note, make)
        digest, left = hashlib.sha256(), folder / method
        models = sorted(path for path in (left / MODELS).rglob("*") if path.is_file())
        for path in (left / METRICS_FILE, *models):
            digest.update(path.read_bytes())
        return {
            "s a round": f"{median(b - a for a, b in pairwise(ends)):.2f}",
            "driver MiB": (peak_bytes() or 0) >> 20,
            "state MiB": f"{(left / DATABASE_FILE).stat().st_size / 2**20:.1f}",
            "models MiB": f"{sum(path.stat().st_size for path in models) / 2**20:.1f}",
            "digest": digest.hexdigest(),
        }


def main() -> None:
    arguments = read_arguments(
        TINY,
        people=[250, 1000],
        methods=["fedavg", "fedsub-ridge", "fedsub"],
        places=Known(["one", "two"]),
        rounds=3,
        samples=(40, "for training"),
        data=f"{REAL}/wisdm-stats",
        csv=Path,
        alone=str,
    )
    if arguments.alone:
        found = alone(arguments.alone, arguments.methods[0], arguments.people[0], arguments)
        print(json.dumps(found))
        return
    for method in arguments.methods:
        for people in arguments.people:
            digests = set[object]()
            for place in arguments.places:
                given = ["--people", str(people), "--methods", method, "--alone", place]
                command = [sys.executable, __file__, *sys.argv[1:], *given]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ)
                if done.returncode:
                    sys.exit(f"{method}, {people} people, {place}: ended with {done.returncode}")
                found = json.loads(done.stdout.splitlines()[-1])
                digests.add(found.pop("digest"))
                text = ", ".join(f"{name} {value}" for name, value in found.items())
                print(f"{method}, {people} people, {place}: {text}", flush=True)
                row = {"method": method, "people": str(people), "place": place, **found}
                put_rows(arguments.csv, [row], ["method", "people", "place"])
            if len(digests) > 1:
                sys.exit(f"{method}, {people} people: other bytes at another place")


if __name__ == "__main__":
    main()
