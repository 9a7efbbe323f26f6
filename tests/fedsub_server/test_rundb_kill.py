"""The run's database survives kill -9 at any moment."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fedsub_server.rundb import RunDatabase

CLIENTS, SIZE = 8, 40_000

# Imports once; for every delay it reads, it forks a process that commits rounds in a loop, kills
# it that long after its first commit, and prints the last round whose commit had returned.
NURSERY = """
import os, signal, sys, time
from pathlib import Path
import torch
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase

clients, size = int(sys.argv[2]), int(sys.argv[3])

def run(report):
    db = RunDatabase(Path(sys.argv[1]), {"seed": 1})
    while True:
        round = db.last_round() + 1
        state = {f"client/{i}": {"w": torch.full((size,), float(round)), "n": torch.tensor(round)}
                 for i in range(clients)}
        db.commit(round, state, [MetricRow(round, str(i), None, "loss", round)
                                 for i in range(clients)])
        os.write(report, b"%d\\n" % round)

for delay in sys.stdin:
    reader, report = os.pipe()
    child = os.fork()
    if child == 0:
        run(report)
    os.close(report)
    with os.fdopen(reader, "rb") as lines:
        last = lines.readline()
        time.sleep(float(delay))
        os.kill(child, signal.SIGKILL)
        for last in lines:
            pass
    os.waitpid(child, 0)
    print(int(last), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes made by fork")
def test_a_killed_run_reopens_at_its_last_round(tmp_path: Path) -> None:
    path, kills = tmp_path / "state.db", 12
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    moments = random.Random(20)
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(path), str(CLIENTS), str(SIZE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as nursery:
        assert nursery.stdin is not None and nursery.stdout is not None
        before = 0
        for _ in range(kills):
            nursery.stdin.write(f"{moments.uniform(0, 0.06)}\n")
            nursery.stdin.flush()
            returned = int(nursery.stdout.readline())
            with RunDatabase(path) as db:
                round, state = db.load()
                # A commit that had returned is never lost; the one under way may have made it.
                assert round in (returned, returned + 1) and round > before
                assert sorted(state) == [f"client/{i}" for i in range(CLIENTS)]
                for tensors in state.values():
                    assert tensors["n"].item() == round
                    assert tensors["w"].shape == (SIZE,) and (tensors["w"] == round).all()
                assert [(row.round, row.client, row.value) for row in db.metrics()] == [
                    (r, str(i), r) for r in range(1, round + 1) for i in range(CLIENTS)
                ]
            before = round
        nursery.stdin.close()
