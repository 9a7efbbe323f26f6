"""The device in TypeScript beside Python's: CPU seconds of a round, bytes, how far numbers differ.

People of the built-in federation train with Python's devices, and all messages to one of them are
written down. Then a device of each kind answers these messages once more, each from what it kept
before. Node starts anew for each method. `make web` makes what it runs.
"""

import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from script import put_rows, read_arguments

from fedsub.testing.golden import PERSON, answered, device_of, played
from fedsub.testing.golden_values import records_of, state_of
from fedsub_core.config.run_config import RunConfig, from_flat
from fedsub_core.data.federation import ClientData, Federation, write_federation
from fedsub_core.data.sources import WATCH, load_client, load_federation
from fedsub_core.wire.exchange import PAYLOAD

TINY = ["--methods", "fedavg", "--rounds", "2", "--people", "3"]
#: It needs Node and what `make web` builds.
SLOW = True
LINES = ("fedavg ",)
WEB = Path(__file__).parents[1] / "web"


def federation(people: int) -> Federation:
    """Return some people of the watch, without times, under the names of golden messages."""
    watch = load_federation(WATCH)
    some = list(watch.clients.values())[:people]
    named = {f"p{i}": ClientData(f"p{i}", one.x, one.y) for i, one in enumerate(some, 1)}
    return Federation(watch.card, named)


def in_python(case: Mapping[str, Any], config: RunConfig) -> list[float]:
    """Return the CPU seconds of each answer."""
    card, person = load_client(config.data, PERSON)
    found = []
    for one in case["exchanges"]:
        context = device_of(config, PERSON, state_of(one["before"], card, person))
        content, before = records_of(one["in"]), time.process_time()
        answered(one["type"], content, context)
        found.append(time.process_time() - before)
    return found


def in_node(name: str, folder: Path) -> dict[str, Any]:
    """Return the CPU seconds of each answer, and the greatest difference of an upload's number."""
    script = folder / "measure.mjs"
    build = [str(WEB / "node_modules/.bin/esbuild"), "tests/golden/measure.ts", "--bundle"]
    build += ["--format=esm", "--platform=node", f"--outfile={script}", "--log-level=error"]
    subprocess.run(build, cwd=WEB, check=True)
    env = os.environ | {"GOLDEN": f"{folder}/"}
    done = subprocess.run(["node", script, name], cwd=WEB, env=env, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def payloads(case: Mapping[str, Any], side: str) -> int:
    """Return the bytes of all payloads that came ``in`` or went ``out``."""
    sizes = 0
    for one in case["exchanges"]:
        for text in one[side].get(PAYLOAD, {}).get("arrays", {}).values():
            sizes += len(base64.b64decode(text))
    return sizes


def measured(method: str, rounds: int, people: Federation, folder: Path) -> dict[str, object]:
    """Return a method's row."""
    data = folder / "people"
    if not data.exists():
        write_federation(data, people)
    keys = {"method": method, "beside": "", "rounds": rounds, "data": str(data), "threads": 1}
    config = from_flat({**keys, "evaluate-every": 1})
    case = played(method, config, list(people.clients))
    (folder / f"{method}.json").write_text(json.dumps(case, indent=1, sort_keys=True) + "\n")
    ours, theirs = sum(in_python(case, config)), in_node(method, folder)
    node = sum(theirs["seconds"])
    return {
        "method": method,
        "Python, CPU s a round": f"{ours / rounds:.2f}",
        "Node, CPU s a round": f"{node / rounds:.2f}",
        "Node : Python": f"{node / ours:.1f}",
        "bytes up a round": payloads(case, "out") // rounds,
        "bytes down a round": payloads(case, "in") // rounds,
        "greatest difference of an uploaded number": f"{max(theirs['differences']):.1e}",
    }


def main() -> None:
    given = read_arguments(
        TINY, methods=["fedavg", "fedsub", "fedsub-ridge"], rounds=3, people=4, csv=Path
    )
    people = federation(given.people)
    with tempfile.TemporaryDirectory() as folder:
        for method in given.methods:
            row = measured(method, given.rounds, people, Path(folder))
            print(*row.values(), flush=True)
            put_rows(given.csv, [row], ["method"])


if __name__ == "__main__":
    main()
