"""Devices that leave in the middle of a round: how long the others wait.

    python benchmarks/absent.py [--people 6] [--timeout 600] [--out benchmarks/results/absent.csv]
        [--quiet-rounds 3]

Real deployments on loopback (`fedsub deploy local`), FedAvg. As a round begins, one device's key is
unregistered. In later rounds another device is killed for good, and one more is stopped (SIGSTOP:
it stays connected until its heartbeats are missed). Last, one of two devices is killed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from deployment import look_as_apart, small_federation  # a script beside this one
from script import parsed, put_rows, today

from fedsub.deploy.components import CONNECTION
from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import RunConfig, read_config

TINY = ["--people", "3", "--timeout", "60", "--quiet-rounds", "1", "--few"]
#: A deployment comes up.
SLOW = True
#: What the lines of results begin with.
LINES = ("all there", "one unregistered")
#: What happens to a device.
Fault = Callable[[Rehearsal, str], None]


def unregister(rehearsal: Rehearsal, client: str) -> None:
    """Unregister a device's key, as an operator does."""
    log = rehearsal.place.log(f"supernode-{client}").read_text(errors="replace")
    node = re.findall(r"SuperNode ID: (\d+)", log)[-1]
    task = rehearsal._flwr("unregister", "supernode", "unregister", node, CONNECTION)
    rehearsal.supervisor.finish([task], 60.0)
    _leave(rehearsal, client)


def kill(rehearsal: Rehearsal, client: str) -> None:
    """Kill a device's processes; nobody starts them again."""
    _signal(rehearsal, client, signal.SIGKILL)


def stop(rehearsal: Rehearsal, client: str) -> None:
    """Stop a device's processes; its connections stay open."""
    _signal(rehearsal, client, signal.SIGSTOP)


def _leave(rehearsal: Rehearsal, client: str) -> None:
    """Let a device's processes end without being started again."""
    for child in rehearsal.supervisor.children:
        if child.name in (f"supernode-{client}", f"supernode-{client}-superexec"):
            child.task = True


def _signal(rehearsal: Rehearsal, client: str, number: signal.Signals) -> None:
    _leave(rehearsal, client)
    for child in rehearsal.supervisor.children:
        if child.name.startswith(f"supernode-{client}"):
            os.killpg(child.process.pid, number)


def seconds_of_rounds(
    config: RunConfig, people: int, faults: Sequence[Fault], quiet: int
) -> list[float]:
    """Return the seconds of a round without a fault, and of the rounds in which devices have one.

    Device c<i> has the i-th fault after `quiet` rounds without one, as far as they are seen: on a
    busy machine a round may begin and end between two looks.
    """
    rehearsal = Rehearsal(config, people, lambda text: None, lambda round: None)
    rehearsal.config = replace(rehearsal.config, min_clients=1)
    ends, faulty = dict[int, float](), list[int]()
    with rehearsal.up():
        for finished in rehearsal.follow(rehearsal.submit()):
            if finished in ends:
                continue
            ends[finished] = time.monotonic()
            done = len(faulty)
            if done < len(faults) and finished >= (faulty[-1] if faulty else 0) + quiet:
                faulty.append(finished + 1)
                faults[done](rehearsal, f"c{done}")
        for child in rehearsal.supervisor.children:
            if child.task and child.process.poll() is None:
                os.killpg(child.process.pid, signal.SIGCONT)
    free = [ends[r] - ends[r - 1] for r in ends if r - 1 in ends and 1 < r < faulty[0]]
    return [
        max(free),
        *(min(ends[later] for later in ends if later >= r) - ends[r - 1] for r in faulty),
    ]


def measured(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Return seconds of a round, by what happens in it."""
    quiet = arguments.quiet_rounds + 1
    named: dict[str, Fault] = {"one unregistered": unregister}
    if not arguments.few:
        named |= {"one killed": kill, "one stopped": stop}

    def run(people: int, faults: Sequence[Fault]) -> list[float]:
        given = {
            "data": small_federation(folder / f"data-{people}", people, 60),
            "out": str(folder),
            "method": "fedavg",
            "beside": "",
            "evaluate-every": 1000,
            "rounds": (len(faults) + 2) * quiet,
            "round-timeout": arguments.timeout,
        }
        return seconds_of_rounds(read_config(None, given), people, faults, quiet)

    found = run(arguments.people, list(named.values()))
    seconds = dict(zip(("all there", *named), found, strict=True))
    if not arguments.few:
        seconds["one of two killed"] = run(2, [kill])[1]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=6)
    parser.add_argument("--timeout", type=float, default=600.0, help="of a round")
    parser.add_argument("--quiet-rounds", type=int, default=3, help="before each fault")
    parser.add_argument("--few", action="store_true", help="one fault alone")
    parser.add_argument("--out", type=Path, help="the file of results")
    arguments = parsed(parser, TINY)
    look_as_apart()
    with tempfile.TemporaryDirectory() as temporary:
        found = measured(arguments, Path(temporary))
    for what, seconds in found.items():
        print(f"{what:18} {seconds:6.1f} s", flush=True)
    if arguments.out is not None:
        rows = [
            {"seconds of a round": what, "now": f"{seconds:.0f}", "written": today()}
            for what, seconds in found.items()
        ]
        put_rows(arguments.out, rows, ["seconds of a round"])


if __name__ == "__main__":
    main()
