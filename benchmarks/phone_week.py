"""A phone's week on a simulated clock: requests, bytes and seconds of a page that is opened daily.

    python benchmarks/phone_week.py [--methods fedsub-ridge fedsub fedavg] [--minutes 2 10 60]
        [--csv benchmarks/results/phone-week.csv]

People of the built-in federation train with Python's devices, a round a day, and all messages to
one of them are written down. Then the device in TypeScript answers them within a simulated week: it
is open for so many minutes a day, looks for messages as often as the page does, and sends its
heartbeats. `make web` makes what it runs.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from script import put_rows, read_arguments
from web_device import WEB, federation

from fedsub.testing.golden import played
from fedsub_core.config.run_config import from_flat
from fedsub_core.data.federation import write_federation

TINY = ["--methods", "fedsub-ridge", "--minutes", "2", "--people", "3"]
#: It needs Node and what `make web` builds.
SLOW = True
#: What the lines of results begin with.
LINES = ("fedsub-ridge ",)
DAYS = 7


def messages(method: str, people: int, folder: Path) -> None:
    """Write down all messages to a person of a week's rounds, one a day."""
    data = folder / "people"
    some = federation(people)
    if not data.exists():
        write_federation(data, some)
    keys = {"method": method, "beside": "", "rounds": DAYS, "data": str(data), "threads": 1}
    case = played(method, from_flat(keys), list(some.clients))
    (folder / f"{method}.json").write_text(json.dumps(case, indent=1, sort_keys=True) + "\n")


def weeks(method: str, minutes: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """Return the counts of a device's weeks, one for each of the minutes."""
    script = folder / "week.mjs"
    build = [str(WEB / "node_modules/.bin/esbuild"), "tests/golden/week.ts", "--bundle"]
    build += ["--format=esm", "--platform=node", f"--outfile={script}", "--log-level=error"]
    subprocess.run(build, cwd=WEB, check=True)
    env = os.environ | {"GOLDEN": f"{folder}/"}
    command = ["node", str(script), method, *map(str, minutes)]
    done = subprocess.run(command, cwd=WEB, env=env, check=True, stdout=subprocess.PIPE)
    counted: list[dict[str, Any]] = json.loads(done.stdout)
    return counted


def main() -> None:
    methods = ["fedsub-ridge", "fedsub", "fedavg"]
    given = read_arguments(TINY, methods=methods, minutes=[2, 10, 60], people=4, csv=Path)
    with tempfile.TemporaryDirectory() as folder:
        for method in given.methods:
            messages(method, given.people, Path(folder))
            found = weeks(method, given.minutes, Path(folder))
            for minutes, counted in zip(given.minutes, found, strict=True):
                row = {
                    "method": method,
                    "minutes open a day": minutes,
                    "answers": counted["answers"],
                    "requests": counted["requests"],
                    "of these looks that find nothing": counted["looks"],
                    "KB up": f"{counted['up'] / 1e3:.0f}",
                    "KB down": f"{counted['down'] / 1e3:.0f}",
                    "CPU s of all answers": f"{counted['seconds']:.1f}",
                }
                print(*row.values(), flush=True)
                put_rows(given.csv, [row], ["method", "minutes open a day"])


if __name__ == "__main__":
    main()
