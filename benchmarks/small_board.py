"""What a device of `fedsub-ridge` takes with PyTorch and without: disk, seconds, memory.

Installed are the files of fedsub and of all that it needs, as pip has recorded them, with the extra
`train` and without. A deployment of the watch's windows is rehearsed on this machine. A device
without PyTorch is one whose processes cannot import it. Idle is the proportional share of memory
(PSS) after the run; Flower's own programs stand beside. The peak is that of all of a device's
processes together. Then SuperNode and SuperExec of one device share a control group of so many MiB,
page cache included, less and less: who dies there, or does not train all rounds, cannot take part.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import distribution
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement
from processes import descendants, memory
from script import Known, put_rows, read_arguments

from fedsub.deploy.flower_process import flower_environment
from fedsub.engines.rehearsal import EAGER, Rehearsal
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.errors import FedSubError

TINY = ["--rounds", "1", "--devices", "with PyTorch", "without PyTorch", "--limits"]
LINES = ("Flower's own:", "with PyTorch:", "without PyTorch:")
#: Devices: the extra that they install, whether PyTorch is hidden, and their environment.
DEVICES: dict[str, tuple[str, bool, dict[str, str]]] = {
    "with PyTorch": ("train", False, {}),
    "without PyTorch": ("", True, {}),
    "without, a program a message": ("", True, {"FEDSUB_WARM_SECONDS": "0"}),
}
SLOW = True
MIB = 2**20
#: What makes a module look as if it were not installed, wherever Python starts.
HIDDEN = "import sys\nsys.modules['torch'] = None\n"
IMPORT = "import time; import fedsub_client.app; print(time.process_time())"
#: The program of each of a device's processes, by how the rehearsal calls it.
OURS, FLOWERS = "fedsub-super", "flower-super"
PEOPLE, MEASURED, BESIDE = 2, "01", "02"
GROUPS = Path("/sys/fs/cgroup")
HEAD = (
    "device", "installed MB", "import s", "SuperNode MiB", "SuperExec MiB",
    "process that forks ClientApps MiB", "peak MiB", "takes part within MiB",
)  # fmt: skip


def installed(extra: str) -> int:
    """Return the bytes of fedsub and all that it needs, with an extra of it or without ("")."""
    done, todo, size = set[tuple[str, str]](), [("fedsub", extra)], 0
    while todo:
        name, extras = todo.pop()
        found = distribution(name)
        if (name, extras) in done:
            continue
        if not any(name == one for one, _ in done):
            paths = (Path(str(file.locate())) for file in found.files or ())
            size += sum(path.stat().st_size for path in paths if path.is_file())
        done.add((name, extras))
        for text in found.requires or ():
            need = Requirement(text)
            environments = [{"extra": one} for one in ("", *extras.split(","))]
            if need.marker is None or any(map(need.marker.evaluate, environments)):
                todo.append((need.name, ",".join(sorted(need.extras))))
    return size


class Board(Rehearsal):
    """A rehearsal in which one device is measured, and another runs Flower's own programs.

    Parameters
    ----------
    more : the environment of devices, beside what all have.
    group : a control group that the measured device's processes share; None: any memory.
    """

    more: Mapping[str, str] = MappingProxyType({})
    group: Path | None = None
    flowers = False
    peak, watching = 0, False

    def _start(self, name: str, command: list[str], rank: int) -> None:
        env = EAGER | flower_environment(self.place.home(name))
        if name.startswith("supernode-"):
            env |= self.more
            if self.flowers and BESIDE in name:
                command = [command[0].replace(OURS, FLOWERS), *command[1:]]
            if self.group is not None and MEASURED in name:
                enter = f'echo $$ > {self.group}/cgroup.procs && exec "$@"'
                command = ["sh", "-c", enter, "sh", *command]
        self.supervisor.start(name, command, env, self.place.log(name), rank=rank, restart=True)

    def processes(self, client: str) -> list[list[int]]:
        """Return a device's processes: SuperNode's, SuperExec, and below the latter all others."""
        found = []
        for name in (f"supernode-{client}", f"supernode-{client}-superexec"):
            child = next(one for one in self.supervisor.children if one.name == name)
            found.append([pid for pid, _ in descendants(child.process.pid)])
        (node, *beside), (executor, *below) = found
        return [[node, *beside], [executor], below]

    def idle(self, client: str) -> list[int]:
        """Return the bytes of each group of a device's processes."""
        return [sum(map(share, group)) for group in self.processes(client)]

    def watch(self) -> None:
        """Note the most that the measured device's processes have together."""
        while self.watching:
            with suppress(StopIteration, OSError):
                self.peak = max(self.peak, sum(self.idle(MEASURED)))
            time.sleep(0.1)

    def measured(self) -> tuple[list[int], list[int]]:
        """Run it; return what is idle of the measured device, and of the one beside it."""
        self.peak, self.watching = 0, True
        watch = threading.Thread(target=self.watch)
        with self.up():
            watch.start()
            try:
                for _ in self.follow(self.submit()):
                    pass
            finally:
                self.watching = False
                watch.join()
            time.sleep(3)
            return self.idle(MEASURED), self.idle(BESIDE)

    @property
    def rounds(self) -> int:
        """How many rounds the measured device has trained."""
        state = self.place.state / MEASURED / STATE_FILE
        return Saved.of_bytes(state.read_bytes()).round if state.exists() else 0


def share(process: int) -> int:
    """Return a process's proportional share of memory, bytes."""
    return memory("Pss", process, "smaps_rollup")


@contextmanager
def limited(mib: int) -> Iterator[Path]:
    """Yield a control group of so much memory, which is removed afterwards."""
    old = GROUPS / "memory"
    group = (old if old.is_dir() else GROUPS) / f"fedsub-board-{mib}"
    group.mkdir()
    bounds = ["memory.limit_in_bytes"] if old.is_dir() else ["memory.max", "memory.swap.max"]
    try:
        for name in bounds:
            (group / name).write_text(str(mib * MIB if name != "memory.swap.max" else 0))
        yield group
    finally:
        for _ in range(100):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def rehearsal(config: RunConfig, more: Mapping[str, str]) -> Board:
    """Return a rehearsal that says nothing."""
    board = Board(config, PEOPLE, lambda text: None, lambda finished: None)
    board.more = more
    return board


def fits(config: RunConfig, more: Mapping[str, str], mib: int) -> bool:
    """Return whether a device with so much memory trains all rounds."""
    with limited(mib) as group:
        board = rehearsal(config, more)
        board.group = group
        with suppress(FedSubError):
            board.measured()
        return board.rounds == config.rounds


def import_seconds(more: Mapping[str, str]) -> float:
    """Return the CPU seconds until a ClientApp is imported, the least of three."""
    env = {**flower_environment(Path(tempfile.gettempdir())), **more}
    command = [sys.executable, "-c", IMPORT]
    run = [subprocess.run(command, env=env, capture_output=True, text=True) for _ in range(3)]
    return min(float(re.findall(r"[\d.]+", one.stdout)[-1]) for one in run)


def main() -> None:
    given = read_arguments(
        TINY, rounds=3, limits=[800, 512, 384, 320, 256, 192], devices=Known(DEVICES), out=Path
    )
    table = list[dict[str, object]]()
    with tempfile.TemporaryDirectory() as folder:
        hidden = Path(folder, "hidden")
        hidden.mkdir()
        (hidden / "sitecustomize.py").write_text(HIDDEN)
        keys = {"method": "fedsub-ridge", "beside": "", "data": "watch", "out": folder}
        keys |= {"rounds": str(given.rounds), "round-timeout": "60", "quorum": "0.1"}
        config = read_config(None, keys)
        for name in given.devices:
            extra, hides, more = DEVICES[name]
            more = more | ({"PYTHONPATH": str(hidden)} if hides else {})
            board = rehearsal(config, more)
            board.flowers = not hides
            own, flowers = board.measured()
            if board.flowers:
                cells = ["Flower's own", "", "", *mebibytes(flowers[:2]), "", "", ""]
                table.append(dict(zip(HEAD, cells, strict=True)))
            limits = sorted(given.limits, reverse=True)
            least = [str(mib) for mib in takewhile(partial(fits, config, more), limits)]
            size, seconds = f"{installed(extra) / 1e6:.0f}", f"{import_seconds(more):.2f}"
            cells = [name, size, seconds, *mebibytes([*own, board.peak]), *least[-1:]]
            table.append(dict(zip(HEAD, [*cells, *[""] * (not least)], strict=True)))
    for row in table:
        named = ", ".join(f"{key} {cell}" for key, cell in list(row.items())[1:] if cell)
        print(f"{row[HEAD[0]]}: {named}")
    put_rows(given.out, table, HEAD[:1])


def mebibytes(sizes: Sequence[int]) -> list[str]:
    """Return sizes in bytes as cells of the table."""
    return [f"{size / MIB:.0f}" for size in sizes]


if __name__ == "__main__":
    main()
