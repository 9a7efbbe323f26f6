"""From official files to a first table, for each data set: commands, seconds and memory.

It needs `fedsub_papers`, whose data sets are among those.
Official-looking files of a whole data set (`official_data_sets.py`), in a temporary folder, are
made in a process of their own, which is not counted. Then come the commands that a person types,
each as its own process: ``fedsub data prepare``, ``fedsub data partition`` where the set needs one,
and ``fedsub run`` with one round. Peak memory is that of the process. ``--share`` is of the
official number of samples.
"""

import multiprocessing
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from processes import Used, used_by
from script import REAL, Known, put_rows, read_arguments

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # what writes official files is among the tests

from official_data_sets import CLIENTS, DATA_SETS, LEFT_OUT, DataSet  # noqa: E402

STEPS = ("prepare", "partition", "run")
#: Without a run, whose process takes longer to start than all else.
TINY = ["--sets", "mnist", "cora", "--share", "0.1", "--steps", "prepare", "partition"]
LINES = ("mnist prepare:", "mnist partition:", "cora prepare:", "cora partition:")
FEDSUB = (sys.executable, "-c", "from fedsub.cli import main; main()")
#: What CIFAR-10 may take: MB of each process, and seconds to deal it to a hundred people.
MOST_MB, MOST_SECONDS = 2**30 / 1e6, 10.0


def make(name: str, folder: Path, real: Path, share: float) -> None:
    """Write a data set's official files, and where they are, into `folder`."""
    (folder / "official").mkdir()
    source = DATA_SETS[name].make(folder / "official", real, share)
    (folder / "source").write_text("" if source is None else str(source))


def commands(asked: DataSet, source: str) -> dict[str, list[str]]:
    """Return the words that a person types after ``fedsub``, by step."""
    given = ["--source", source] if source else []
    settings = [word for one in asked.settings for word in ("--set", one)]
    typed = {"prepare": ["data", "prepare", asked.name, *given, *settings, "--out", "whole"]}
    data = "whole"
    if asked.partition:
        data = "people"
        typed["partition"] = ["data", "partition", "whole", *asked.partition, "--out", data]
    typed["run"] = ["run", "--data", data, "--method", "fedavg", "--beside", "local"]
    typed["run"] += ["--rounds", "1", *asked.run]
    return typed


def sizes(folder: Path) -> list[int]:
    """Return how many samples each client of a federation has."""
    found = []
    for path in (folder / "clients").iterdir():
        with np.load(path) as file:
            found.append(len(file["y"]))
    return found


def measure(name: str, real: Path, share: float, steps: Sequence[str]) -> dict[str, str]:
    """Print a line for each of a data set's steps, and return its row of the table."""
    asked, used = DATA_SETS[name], dict[str, Used]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # This process must stay small: what it starts counts no less memory than it has itself.
        spawn = multiprocessing.get_context("spawn")
        maker = spawn.Process(target=make, args=(name, folder, real.resolve(), share))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise SystemExit(f"{name}: its official files could not be made")
        for step, command in commands(asked, (folder / "source").read_text()).items():
            if step not in steps:
                continue
            used[step] = one = used_by([*FEDSUB, *command], folder)
            print(
                f"{name} {step}: {one.seconds:.1f} s, {one.cpu:.1f} s of CPU, "
                f"peak {one.peak:.0f} MB",
                flush=True,
            )
        samples, clients = sum(sizes(folder / "whole")), len(sizes(folder / "whole"))
        if "partition" in used:
            clients = len(sizes(folder / "people"))
    if name == "cifar10" and share == 1 and {"prepare", "partition"} <= used.keys():
        peak = max(used["prepare"].peak, used["partition"].peak)
        print(f"aim: {peak:.0f} MB at most, of {MOST_MB:.0f}")
        print(f"aim: {CLIENTS} people in {used['partition'].seconds:.1f} s, of {MOST_SECONDS:.0f}")
    row = {"data set": name, "samples": f"{samples:,}", "filled with": asked.content}
    row |= {"clients": f"{clients}", "commands": f"{len(used)}"}
    row |= {f"{step}: s / CPU s / MB": f"{used.get(step, '')}" for step in STEPS}
    return row


def main() -> None:
    """Measure the data sets one after another."""
    given = read_arguments(
        TINY, sets=Known(DATA_SETS), share=1.0, steps=Known(STEPS), data=Path(REAL), out=Path
    )
    for name in given.sets:
        row = measure(name, given.data, given.share, given.steps)
        put_rows(given.out, [row], ["data set"], [(name,) for name in DATA_SETS])
    for name, why in LEFT_OUT.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    main()
