"""How many devices one server holds: seconds a round, CPU and memory of its processes.

A rehearsed deployment on loopback, with TLS and a key for each device, whose devices are light:
they look for messages as SuperNodes do and answer with an upload that was made before, so that the
time is the server's. A process plays all of them, on the same cores as the server: its CPU seconds
stand beside. Made people of 24 features and 6 classes, and the papers' model of 72,326 numbers.
"""

import os
import sqlite3
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median

from script import put_lines, read_arguments

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # raw devices are among the tests

from light_rehearsal import MIB, LightRehearsal, Processes, made_by_training  # noqa: E402
from secure_sums import made as made_people  # noqa: E402

from fedsub_core.config.run_config import RunConfig, read_config  # noqa: E402
from fedsub_core.data.federation import write_federation  # noqa: E402
from fedsub_core.errors import RunError  # noqa: E402
from fedsub_core.options import Value  # noqa: E402

TINY = ["--devices", "3", "--rounds", "2", "--look", "0.5", "--minutes", "4"]
TINY += ["--methods", "fedsub"]
#: A deployment comes up, however tiny.
SLOW = True
LINES = ("fedsub, 3 devices:",)
HEAD = (
    "method", "devices", "first round, s", "a round, s", "CPU s a round: SuperLink", "ServerApp",
    "all devices", "peak MiB: SuperLink", "peak, ServerApp", "MiB up a round", "MiB down a round",
    "messages refused", "answers missing", "rounds",
)  # fmt: skip
#: Seconds that a step of starting up may take, and as many more for each device.
START_SECONDS, START_SECONDS_EACH = 120.0, 1.0


@dataclass
class Course:
    """When rounds ended, and what the processes had taken by then."""

    begun: float = field(default_factory=time.monotonic)
    ends: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)

    def note(self, finished: int, processes: Processes) -> None:
        """Note that so many rounds have finished."""
        while len(self.ends) < finished:
            self.ends.append(time.monotonic())
            self.cpu.append(dict(processes.cpu))

    @property
    def taken(self) -> float:
        """Return the seconds until the last round ended, with the start and the handshakes."""
        return self.ends[-1] - self.begun

    @property
    def seconds(self) -> list[float]:
        """Return the seconds of each round; the first with the start and the handshakes."""
        begun = [self.begun, *self.ends]
        return [after - before for before, after in zip(begun, self.ends, strict=False)]

    def cpu_a_round(self, part: str) -> float:
        """Return a part's CPU seconds of a round, the first left out."""
        return (self.cpu[-1][part] - self.cpu[0][part]) / (len(self.cpu) - 1)


@dataclass(frozen=True)
class Measured:
    """What a rehearsal took: its rounds, its processes, and the sums of the run's metrics."""

    course: Course
    processes: Processes
    counted: dict[str, float]


def measured(
    config: RunConfig,
    devices: int,
    look: float,
    limit: float,
    kind: type[LightRehearsal] = LightRehearsal,
) -> Measured:
    """Rehearse `config` as a rehearsal of some `kind`, and return what it took.

    Raises RunError if it takes longer than `limit` seconds, or fails.
    """
    people = made_people(devices)
    write_federation(Path(config.data), people)
    made = made_by_training(config, people)
    patience = START_SECONDS + START_SECONDS_EACH * devices
    rehearsal = kind(config, made, look, patience)
    with rehearsal.up():
        processes, course = Processes(rehearsal), Course()
        for finished in rehearsal.follow(rehearsal.submit()):
            processes.look()
            course.note(finished, processes)
            if time.monotonic() - course.begun > limit:
                raise RunError(f"{finished} rounds after {limit:.0f} s, expected {config.rounds}")
    return Measured(course, processes, totals(rehearsal.database))


def line_of(config: RunConfig, devices: int, found: Measured) -> list[str]:
    """Return a line of the table but for its date."""
    course, processes, counted = found.course, found.processes, found.counted
    up = counted.get("bytes_up_flower", 0.0)
    down = counted.get("bytes_down_flower", 0.0) + counted.get("bytes_evaluation_flower", 0.0)
    return [
        config.method,
        str(devices),
        f"{course.seconds[0]:.1f}",
        f"{median(course.seconds[1:]):.1f}",
        *(f"{course.cpu_a_round(part):.1f}" for part in ("superlink", "serverapp", "devices")),
        *(f"{processes.peak[part]:.0f}" for part in ("superlink", "serverapp")),
        *(f"{size / config.rounds / MIB:.2f}" for size in (up, down)),
        *(f"{counted.get(name, 0.0):.0f}" for name in ("refused_replies", "missing_replies")),
        str(config.rounds),
    ]


def totals(database: Path) -> dict[str, float]:
    """Return the sums of a run's metrics over rounds and people."""
    with sqlite3.connect(database) as opened:
        query = "SELECT metric, total(value) FROM metrics GROUP BY metric"
        return {str(metric): float(value) for metric, value in opened.execute(query)}


def arguments_of(
    tiny: Sequence[str], devices: list[int], methods: list[str], **more: object
) -> Namespace:
    """Return the arguments of a script, with these devices and methods by default, and `more`."""
    given = read_arguments(
        tiny,
        devices=devices,
        rounds=(4, "2 or more"),
        methods=methods,
        **more,
        look=(0.0, "seconds; 0: as a SuperNode"),
        minutes=(15.0, "of a run, at most"),
        out=Path,
    )
    os.environ["OMP_NUM_THREADS"] = "1"
    return given


def configured(method: str, given: Namespace, folder: str, **more: Value) -> RunConfig:
    """Return a run whose files lie in `folder`, with `more` keys."""
    settings: dict[str, Value] = {
        "method": method, "beside": "", "data": str(Path(folder, "data")), "out": folder,
        "rounds": given.rounds, "join-timeout": 60.0 * given.minutes, "threads": 1, "device": "cpu",
    }  # fmt: skip
    return read_config(None, settings | more)


def main() -> None:
    arguments = arguments_of(TINY, [10, 50, 200], ["fedavg", "fedsub"])
    for method, devices in product(arguments.methods, arguments.devices):
        with tempfile.TemporaryDirectory() as folder:
            config = configured(method, arguments, folder)
            found = measured(config, devices, arguments.look, 60 * arguments.minutes)
        line = line_of(config, devices, found)
        said = "  ".join(f"{name} {text}" for name, text in zip(HEAD[2:], line[2:], strict=True))
        print(f"{method}, {devices} devices: {said}", flush=True)
        put_lines(arguments.out, HEAD, [line], 2)


if __name__ == "__main__":
    main()
