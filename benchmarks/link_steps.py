"""What each way of asking a SuperLink for less saves, alone and together.

The deployment of `deployment_scale.py`, with light devices, TLS and keys, once for each step: what
FedSub puts in front of Flower is taken away again, but for the step. Steps share a machine with
each other's past only; what else runs on it raises seconds more than CPU seconds.
"""

import os
import sys
import tempfile
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median
from unittest.mock import patch

from deployment_scale import Measured, arguments_of, configured, measured
from light_devices import CALLS, CPU
from light_rehearsal import LightRehearsal
from script import Known, put_rows

from fedsub.deploy.flower_app import COMPONENTS
from fedsub_core.config.run_config import RunConfig

TINY = ["--devices", "3", "--rounds", "2", "--minutes", "4", "--methods", "fedsub-ridge"]
TINY += ["--steps", "none", "memory"]
#: A deployment comes up, however tiny.
SLOW = True
LINES = ("fedsub-ridge, 3 devices, none:", "fedsub-ridge, 3 devices, memory:")
#: What is measured alone; "none": Flower's database and looks; "together": all of these; "default":
#: all but one handler, which is no default; "memory": all of these in memory.
ALONE = ("looks", "held", "indices", "one request", "one handler")
STEPS = ("none", *ALONE, "default", "together", "memory")
#: The names by which each step replaces something of Flower's.
HELD = (
    "_cleanup_expired_task_tokens", "_on_task_tokens_expired", "get_run_status", "get_run_info",
    "finish_task", "store_traffic", "get_node_id_by_public_key", "delete_node",
    "_claim_message_ins_rows", "store_message_ins", "store_message_and_object_tree",
)  # fmt: skip
#: Starts the SuperLink without some steps.
SUPERLINK = """
import sys
from fedsub.deploy import fleet_grpc, guarded_superlink, quick_link
without, sys.argv[1:] = sys.argv[1].split(","), sys.argv[2:]
if "held" in without:
    for name in {held!r}:
        delattr(quick_link.QuickLinkState, name)
    quick_link.QuickLinkState.REPLACED = ("initialize",)
if "indices" in without:
    quick_link.INDICES = {{}}
if "one handler" not in without:
    fleet_grpc._WORKERS = 1
guarded_superlink.main()
"""
#: A ServerApp's module that asks the link for each message alone.
SERVERAPP = """
from strategies.rounds import link
from fedsub_server.app import app
__all__ = ["app"]
link.asks_at_once = lambda grid: False
"""


def taken_away(step: str) -> list[str]:
    """Return the steps that a deployment with this one, or with all, does without."""
    if step == "default":
        return ["one handler"]
    return [] if step in STEPS[-2:] else [other for other in ALONE if other != step]


def stepped(step: str) -> type[LightRehearsal]:
    """Return rehearsals of which SuperLink and ServerApp have this step, or all."""
    without = taken_away(step)

    class Stepped(LightRehearsal):
        def _start(self, name: str, command: list[str], rank: int) -> None:
            if name == "superlink":
                # By its name the measurement finds it.
                program = self.place.folder / "fedsub-superlink"
                program.write_text(SUPERLINK.format(held=HELD))
                if step == "memory":
                    at = command.index("--database")
                    kept = ["--memory", str(self.place.folder / "nodes.json")]
                    command = [*command[:at], *command[at + 2 :], *kept]
                command = [sys.executable, str(program), ",".join(without), *command[1:]]
            super()._start(name, command, rank)

    return Stepped


def line_of(config: RunConfig, devices: int, step: str, found: Measured) -> dict[str, str]:
    """Return a line of the table."""
    course, peak = found.course, found.processes.peak
    missing = found.counted.get("missing_replies", 0.0)
    return {
        "flower": version("flwr"),
        "method": config.method,
        "devices": str(devices),
        "step": step,
        "a round, s": f"{median(course.seconds[1:]):.1f}",
        "CPU s a round: SuperLink": f"{course.cpu_a_round('superlink'):.1f}",
        "ServerApp": f"{course.cpu_a_round('serverapp'):.1f}",
        "all devices": f"{course.cpu_a_round(CPU):.1f}",
        "peak MiB: SuperLink": f"{peak['superlink']:.0f}",
        "peak, ServerApp": f"{peak['serverapp']:.0f}",
        "devices' requests a round": f"{course.cpu_a_round(CALLS):.0f}",
        "first round, s": f"{course.seconds[0]:.1f}",
        "answers missing": f"{missing:.0f}",
        "rounds": str(config.rounds),
    }


def main() -> None:
    given = arguments_of(TINY, [60, 200], ["fedsub"], steps=Known(STEPS))
    for devices, method, step in product(given.devices, given.methods, given.steps):
        without = taken_away(step)
        with tempfile.TemporaryDirectory() as folder:
            app = {"serverapp": "asks_alone:app"} if "one request" in without else {}
            Path(folder, "asks_alone.py").write_text(SERVERAPP)
            path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
            config = configured(method, given, str(Path(folder, "run")))
            # By default as a SuperNode's: more and more seconds between two looks.
            look = given.look or (3.0 if "looks" in without else 0.0)
            with patch.dict(os.environ, PYTHONPATH=path), patch.dict(COMPONENTS, app):
                found = measured(config, devices, look, 60 * given.minutes, stepped(step))
        line = line_of(config, devices, step, found)
        said = "  ".join(f"{name} {text}" for name, text in [*line.items()][4:])
        print(f"{method}, {devices} devices, {step}: {said}", flush=True)
        put_rows(given.out, [line], ["flower", "method", "devices", "step"])


if __name__ == "__main__":
    main()
