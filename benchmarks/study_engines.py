"""A study of many short runs: in one process, in two, and on a Ray cluster of two nodes.

Both nodes are on this machine, one core each, and run before they are timed. What is timed is all
that a study does but its tables: starting processes or connecting, training, keeping the runs.
Contenders take turns; their tables must be the same bytes.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from script import read_arguments
from simulation import federation  # a script beside this one

from fedsub.studies.engine import Engine
from fedsub.studies.local_engine import local_engine
from fedsub.studies.ray_engine import ray_engine
from fedsub.studies.runner import run_study
from fedsub.studies.study import Study
from fedsub.studies.study_file import read_study
from fedsub.studies.study_results import finished
from fedsub.studies.study_tables import write_tables
from fedsub_core.data.federation import write_federation

TINY = ["--runs", "4", "--rounds", "2", "--clients", "3", "--samples", "40", "--times", "1"]
#: Nodes and processes come up one after another, however tiny the runs.
SLOW = True
ONE, TWO, RAY = "local, one job", "local, two jobs", "Ray, two nodes"
LINES = (ONE, TWO, RAY, f"{ONE} / {TWO}", f"{ONE} / {RAY}", f"{TWO} / {RAY}")
STUDY = """
seeds = {seeds}
[run]
data = "data"
rounds = {rounds}
[methods]
local = {{}}
fedavg = {{}}
"""


@contextmanager
def two_nodes() -> Iterator[str]:
    """Start a cluster of two nodes of one core each, yield its address, end it."""
    # Sockets' paths must be short, and no other Ray on this machine is to find the cluster.
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"RAY_TMPDIR": place, "RAY_USAGE_STATS_ENABLED": "0"}
        # Ray's processes give way to all others by default, the local engine's do not.
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so)
        from ray.cluster_utils import Cluster

        cluster: Any = Cluster()
        try:
            cluster.add_node(num_cpus=1, include_dashboard=False)
            cluster.add_node(num_cpus=1)
            yield str(cluster.address)
        finally:
            cluster.shutdown()


def seconds_of(study: Study, engine: AbstractContextManager[Engine]) -> tuple[float, str]:
    """Run a study from its beginning; return what it took, and its tables."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        begun = time.perf_counter()
        with engine as over:
            chosen = run_study(study, folder, over, lambda stage: None)
        seconds = time.perf_counter() - begun
        return seconds, write_tables(study, folder, finished(study, folder, chosen))


def main() -> None:
    arguments = read_arguments(
        TINY,
        runs=(24, "an even number"),
        rounds=30,
        clients=6,
        samples=(200, "of each client"),
        times=(5, "that each is timed"),
    )
    seconds: dict[str, list[float]] = {ONE: [], TWO: [], RAY: []}
    tables = set()
    with tempfile.TemporaryDirectory() as temporary, two_nodes() as address:
        file = Path(temporary, "study.toml")
        seeds = list(range(arguments.runs // 2))
        file.write_text(STUDY.format(seeds=seeds, rounds=arguments.rounds))
        write_federation(file.with_name("data"), federation(arguments.clients, arguments.samples))
        study = read_study(file)
        for _ in range(arguments.times):
            for name, taken in seconds.items():
                engines: dict[str, AbstractContextManager[Engine]] = {
                    ONE: nullcontext(local_engine(1)),
                    TWO: nullcontext(local_engine(2)),
                    RAY: ray_engine(address, None),
                }
                took, text = seconds_of(study, engines[name])
                taken.append(took)
                tables.add(text)
    if len(tables) > 1:
        sys.exit("engines differ in their tables")
    median = {name: statistics.median(taken) for name, taken in seconds.items()}
    for name, taken in seconds.items():
        print(f"{name:35} {median[name]:7.1f} s ({min(taken):.1f} to {max(taken):.1f})")
    print()
    for one, other in ((ONE, TWO), (ONE, RAY), (TWO, RAY)):
        print(f"{f'{one} / {other}':35} {median[one] / median[other]:7.2f}")


if __name__ == "__main__":
    main()
