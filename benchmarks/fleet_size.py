"""What days of a large fleet cost to simulate: CPU minutes of the whole command, and memory.

    python benchmarks/fleet_size.py [--people 1000] [--days 30] [--method fedsub-ridge]
        [--encoder auto] [--data watch] [--out benchmarks/results/fleet-size.csv]

`fedsub deploy simulate` with its defaults, in a process of its own.
"""

import csv
import resource
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from script import put_rows, read_arguments  # a script beside this one

TINY = ["--people", "6", "--days", "1"]
#: What the lines of results begin with.
LINES = ("fedsub-ridge",)


def measured(given: Namespace) -> dict[str, Any]:
    """Return the cost of a fleet's days, and how far they came."""
    size = {"people": given.people, "days": given.days}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "fedsub", "deploy", "simulate", "--out", out]
        command += [part for name, value in size.items() for part in (f"--{name}", str(value))]
        command += ["--data", given.data, "--set", f"method={given.method}"]
        command += ["--set", f"encoder={given.encoder}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        with next(Path(out).glob("*/days.csv")).open(encoding="utf-8") as file:
            days = list(csv.DictReader(file))
    return {
        **size,
        "rounds": sum(int(day["rounds"]) for day in days),
        "uploads": sum(int(day["uploads"]) for day in days),
        "ever served": days[-1]["ever_served"],
        "F1": days[-1]["f1"],
        "CPU minutes": f"{(used.ru_utime + used.ru_stime) / 60:.1f}",
        "peak MB": f"{used.ru_maxrss / 1024:.0f}",
    }


def main() -> None:
    given = read_arguments(
        TINY,
        people=1000,
        days=30,
        data="watch",
        method="fedsub-ridge",
        encoder="auto",
        out=Path,
    )
    row = {"encoder": given.encoder, **measured(given)}
    print(f"{given.method:12}", *(f"{name} {value}" for name, value in row.items()), flush=True)
    put_rows(given.out, [{"method": given.method, **row}], ["method", "people", "days"])


if __name__ == "__main__":
    main()
