"""A rehearsed deployment whose devices are light, and what its server processes take."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from light_devices import CALLS, CPU, DOWN, TAKEN, THERE, UP, Made
from processes import cpu_seconds, descendants, memory

from fedsub.deploy.components import CONNECTION, HOST
from fedsub.engines.rehearsal import _DEVICES, Rehearsal
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.protections.accepted_sum import AcceptedSum
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.secure.transcript import Origin
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Content, payload_of
from fedsub_core.wire.lazy_message import LazyMessage
from strategies.rounds.round import Round

ROOT = Path(__file__).resolve().parents[1]
MIB = 2**20
#: Registers keys one after another: a start of Flower's command line takes longer than all of them.
REGISTER = """
import sys
from flwr.cli.app import app
for public in sys.argv[2:]:
    name = public.rsplit("/", 1)[1].removesuffix(".pub")
    app(["supernode", "register", public, sys.argv[1], "--name", name], standalone_mode=False)
"""
#: Processes of the server's side, by what their command lines hold.
PARTS = {"superlink": "fedsub-superlink", "serverapp": "flwr-serverapp"}


def made_by_training(config: RunConfig, people: Federation) -> dict[str, Made]:
    """Return the uploads of devices that train, of all rounds, all in this process."""
    grid = build_grid(config, config.method, people)
    strategy = build_strategy(config, config.method)
    uploads = dict[tuple[str, int], bytes]()
    masked, accept = AcceptedSum.masked, strategy.transport.accept

    def note(client: str, round: int, payload: bytes | LazyMessage) -> None:
        data = payload.to_bytes() if isinstance(payload, LazyMessage) else payload
        uploads.setdefault((client, round), data)

    def before_masks(
        part: AcceptedSum, payload: bytes | LazyMessage, origin: Origin
    ) -> LazyMessage:
        note(part.person.client, part.plan.name.round, payload)
        return masked(part, payload, origin)

    def accepted(
        client: str, upload: Bundle, content: Content, round: Round, late: bool = False
    ) -> None:
        note(client, round.number, payload_of(content))
        accept(client, upload, content, round, late=late)

    noted = patch.object(AcceptedSum, "masked", before_masks)
    with noted, patch.object(strategy.transport, "accept", accepted):
        strategy.connect(grid)
        for round in (rounds := range(1, config.rounds + 1)):
            strategy.run_round(grid, round, 600, evaluated=False)
    grid.close()
    said = [one.record() for cohort in grid.cohorts for one in cohort.introductions()]
    return {
        (name := str(one["client"])): Made(dict(one), [uploads[name, round] for round in rounds])
        for one in said
    }


class LightRehearsal(Rehearsal):
    """A rehearsal with SuperLink, TLS and keys, in which one process plays all devices.

    Parameters
    ----------
    made : what each says.
    look : seconds between two looks of a device for a message.
    patience : seconds for each step of starting up.
    """

    def __init__(
        self, config: RunConfig, made: dict[str, Made], look: float, patience: float
    ) -> None:
        super().__init__(config, len(made), lambda text: None, lambda finished: None)
        self.made, self.look, self.patience = made, look, patience

    @property
    def answers(self) -> Path:
        """Where the devices read what they say, and write how they are."""
        return self.place.folder / "answers"

    def _register_keys(self) -> None:
        keys = [f"{self.place.key(name)}.pub" for name in self.made]
        command = [sys.executable, "-c", REGISTER, CONNECTION, *keys]
        log = self.place.log("register")
        task = self.supervisor.start("register", command, self.cli, log, task=True)
        self.supervisor.finish([task], self.patience)
        # Flower exits with 0 when it fails, too.
        assert task.output().count("registered successfully") == len(keys), task.tail()

    def _start_devices(self) -> None:
        place = self.place
        self.answers.mkdir()
        for name, said in self.made.items():
            said.write(self.answers, name)
        where = [f"{HOST}:{self.fleet}", place.credentials.ca, place.folder / "keys", self.answers]
        path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
        command = [sys.executable, "-c", "import light_devices; light_devices.main()"]
        command += [*map(str, where), str(self.look), *self.made]
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.supervisor.start("devices", command, env, place.log("devices"), rank=_DEVICES)
        there = self.answers / THERE
        self.supervisor.wait_until(there.exists, "devices connected", self.patience)


class Processes:
    """CPU seconds and peak memory of a rehearsal's processes, as of the last look."""

    def __init__(self, rehearsal: LightRehearsal) -> None:
        self._rehearsal = rehearsal
        self._found = dict[str, int]()
        #: Of each part, and of all devices together.
        self.cpu: dict[str, float] = dict.fromkeys([*PARTS, CPU, CALLS], 0.0)
        self.peak: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        #: Bytes of the devices' requests, and of the answers to them; their number is beside CPU.
        self.up = self.down = 0

    def look(self) -> None:
        """Read what the system says of them; of what has ended the last look counts."""
        for part in PARTS.keys() - self._found.keys():
            self._find(part)
        for part, process in self._found.items():
            self.cpu[part] = cpu_seconds(process) or self.cpu[part]
            self.peak[part] = memory("VmHWM", process) / MIB or self.peak[part]
        with suppress(OSError):
            taken = json.loads((self._rehearsal.answers / TAKEN).read_bytes())
            self.cpu[CPU], self.up, self.down = taken[CPU], taken[UP], taken[DOWN]
            self.cpu[CALLS] = taken[CALLS]

    def _find(self, part: str) -> None:
        """Find a part among what this rehearsal's processes started."""
        for child in self._rehearsal.supervisor.children:
            for process, _ in descendants(child.process.pid):
                with suppress(OSError):
                    line = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
                    if any(Path(word).name == PARTS[part] for word in line.split("\0")):
                        self._found[part] = process
