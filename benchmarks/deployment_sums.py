"""What secure sums cost over a real connection: seconds, CPU, memory and bytes, beside plain runs.

    python benchmarks/deployment_sums.py [--devices 10 30 100] [--rounds 4]
        [--methods fedavg fedsub-ridge] [--look 3] [--minutes 15]
        [--out benchmarks/results/deployment-sums.csv]

Two runs of `deployment_scale.py`'s deployment, one after the other: plain, and with
`secure-aggregation`. Devices are light: they have trained before. They do their part in the sums as
devices do, but no program is started for a message. Bytes are those of all calls that devices make,
looks for messages among them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median

from deployment_scale import Measured, measured, write
from light_rehearsal import PARTS

from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.options import Value

TINY = ["--devices", "3", "--rounds", "2", "--look", "0.5", "--minutes", "4"]
TINY += ["--methods", "fedavg"]
#: Two deployments come up, however tiny.
SLOW = True
#: What the lines of results begin with.
LINES = ("fedavg, 3 people:", "fedavg with secure sums, 3 people:")
#: What is measured of a run, and how it is written.
COLUMNS = (
    ("a round, s", ".1f"), ("all rounds, s", ".0f"), ("CPU s a round: server", ".2f"),
    ("all devices", ".2f"), ("peak MiB: SuperLink", ".0f"), ("peak, ServerApp", ".0f"),
    ("kB up, a person and round", ".1f"), ("kB down", ".1f"),
)  # fmt: skip
HEAD = (
    "method", "people", *(name for name, _ in COLUMNS), "times plain: seconds a round",
    "server's CPU", "sums opened", "messages lost", "rounds", "written",
)  # fmt: skip
#: What a method needs in runs of sums; plain runs have it, too.
OWN: dict[str, dict[str, Value]] = {
    "fedsub": {"fedsub.k-selection": "fixed:1", "fedsub.fusion": "avg"},
}
#: Of the columns, those that are compared with the plain run's.
SECONDS, SERVER = 0, 2


def numbers(found: Measured, devices: int) -> list[float]:
    """Return what `COLUMNS` name of a run."""
    course, processes = found.course, found.processes
    each = devices * len(course.ends) * 1e3
    return [
        median(course.seconds[1:]),
        course.taken,
        sum(course.cpu_a_round(part) for part in PARTS),
        course.cpu_a_round("devices"),
        *(processes.peak[part] for part in PARTS),
        processes.up / each,
        processes.down / each,
    ]


def line_of(name: str, devices: int, found: Measured, plain: Measured) -> list[str]:
    """Return a run's line of the table but for its date."""
    own, other = numbers(found, devices), numbers(plain, devices)
    failed = ("refused_replies", "missing_replies", "secure_lost")
    return [
        name,
        str(devices),
        *(f"{number:{form}}" for (_, form), number in zip(COLUMNS, own, strict=True)),
        *(f"{own[i] / other[i]:.1f}" for i in (SECONDS, SERVER)),
        f"{found.counted.get('secure_people', 0.0) / devices:g}",
        f"{sum(found.counted.get(metric, 0.0) for metric in failed):.0f}",
        str(len(found.course.ends)),
    ]


def configured(method: str, sums: bool, rounds: int, limit: float, folder: str) -> RunConfig:
    """Return a run; a plain one, too, is as secure sums need it."""
    settings: dict[str, Value] = {
        "method": method,
        "beside": "",
        "data": str(Path(folder, "data")),
        "out": folder,
        "rounds": rounds,
        "join-timeout": limit,
        "threads": 1,
        "device": "cpu",
        "robust": "none",
        "standardise": "client",
        "secure-aggregation": sums,
        **OWN.get(method, {}),
    }
    return read_config(None, settings)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--rounds", type=int, default=4, help="2 or more")
    parser.add_argument("--methods", nargs="+", default=["fedavg", "fedsub-ridge"])
    parser.add_argument("--look", type=float, default=3.0, help="seconds: a SuperNode's are 3")
    parser.add_argument("--minutes", type=float, default=15.0, help="of a run, at most")
    parser.add_argument("--out", type=Path, help="a CSV file to which the lines are added")
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def main() -> None:
    arguments = read_arguments()
    os.environ["OMP_NUM_THREADS"] = "1"
    limit = 60 * arguments.minutes
    for method, devices in product(arguments.methods, arguments.devices):
        plain: Measured | None = None
        for sums in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                config = configured(method, sums, arguments.rounds, limit, folder)
                found = measured(config, devices, arguments.look, limit)
            name, plain = f"{method} with secure sums" if sums else method, plain or found
            line = line_of(name, devices, found, plain)
            said = "; ".join(f"{n} {text}" for n, text in zip(HEAD[2:], line[2:], strict=False))
            print(f"{name}, {devices} people: {said}", flush=True)
            if arguments.out is not None:
                write(arguments.out, HEAD, [*line, datetime.now(UTC).date().isoformat()])


if __name__ == "__main__":
    main()
