"""Parts of a served federation are killed, over TLS: no round is lost, and all bits are equal."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "service_kills.py"
FEW = ["serve:submitting", "ServerApp:training"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]


@pytest.mark.parametrize("kills", [FEW, pytest.param([], marks=pytest.mark.release)])
def test_kills_cost_time_and_nothing_else(kills: list[str], tmp_path: Path) -> None:
    out, chosen = tmp_path / "kills.csv", ["--kills", *kills] if kills else []
    command = [sys.executable, str(SCRIPT), *chosen, "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["rounds lost"], row["bits equal"]) for row in rows} == {("0", "yes")}
    assert len(rows) == len(kills) or len(rows) > 10
