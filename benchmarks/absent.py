"""Devices that leave in the middle of a round: how long the others wait.

Real deployments on loopback (`fedsub deploy local`), FedAvg. As a round begins, one device's key is
unregistered. In later rounds another device is killed for good, and one more is stopped (SIGSTOP:
it stays connected until its heartbeats are missed). Last, one of two devices is killed.
"""

import os
import re
import signal
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from deployment import look_as_apart, small_federation  # a script beside this one
from script import put_lines, read_arguments

from fedsub.deploy.components import CONNECTION
from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import RunConfig, read_config

TINY = ["--people", "3", "--timeout", "60", "--quiet-rounds", "1", "--few"]
#: A deployment comes up.
SLOW = True
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


def measured(arguments: Namespace, folder: Path) -> dict[str, float]:
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
    arguments = read_arguments(
        TINY,
        people=6,
        timeout=(600.0, "of a round"),
        quiet_rounds=(3, "before each fault"),
        few=(False, "one fault alone"),
        out=Path,
    )
    look_as_apart()
    with tempfile.TemporaryDirectory() as temporary:
        found = measured(arguments, Path(temporary))
    for what, seconds in found.items():
        print(f"{what:18} {seconds:6.1f} s", flush=True)
    rows = [(what, f"{seconds:.0f}") for what, seconds in found.items()]
    put_lines(arguments.out, ("seconds of a round", "now"), rows, 1)


if __name__ == "__main__":
    main()
