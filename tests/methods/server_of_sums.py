"""People's devices and a server of their secure sums, in one process.

A device is made anew for each message, as after a restart: it goes by what it kept.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Message
from torch import Tensor

from fedsub.deploy.keys import make_node_key
from fedsub.deploy.roster import OWNER_FILE, ROSTER_FILE, add_to_roster
from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub_core.config.run_config import RunConfig
from fedsub_core.metrics import MetricRow
from fedsub_core.secure.messages import SECURE

SUMS: dict[str, Any] = dict(
    rounds=2, device="cpu", threads=1, lr=0.05, batch_size=16, hidden="16", robust="none",
    secure_aggregation=True, standardise="client", quorum=0.0, round_timeout=0.3, join_timeout=0.3,
)  # fmt: skip
Passes = Callable[[Message], bool]


class Devices(DeviceGrid):
    """Devices some of whose messages are lost: those that `passes` says no to."""

    passes: Passes = staticmethod(lambda message: True)
    #: Questions whose answers come through.
    hears: Passes = staticmethod(lambda message: True)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let each device work whose message comes through."""
        for message in messages:
            if self.passes(message):
                found = list(super().answers([message]))
                yield from found if self.hears(message) else ()


class Server:
    """A server's process: a strategy, the states after its rounds, and what it wrote of them."""

    def __init__(
        self,
        config: RunConfig,
        grid: Devices,
        run: str = "a run",
        transcript: Path | None = None,
        roster: bytes = b"",
    ) -> None:
        self.strategy = build_strategy(config, config.method)
        self.strategy.run_name, self.strategy.outset.roster = run, roster
        self.strategy.transcript = transcript
        self.states: list[dict[str, Tensor]] = []
        self.rows: list[MetricRow] = []
        self.strategy.on_round = self._note
        self.strategy.start(grid)

    def _note(self, round: int, state: dict[str, Tensor], rows: Sequence[MetricRow]) -> None:
        kept = (
            "linear", "everybody", "holders", "pooled", "prototypes", "people", "selected", "gate",
        )  # fmt: skip
        model = {n: t.clone() for n, t in state.items() if n.startswith(kept)}
        self.states.append(model)
        self.rows += rows

    def metric(self, name: str) -> dict[int, float]:
        """Return a metric of the run by round."""
        return {r.round: r.value for r in self.rows if r.metric == name}


def devices(tmp_path: Path, config: RunConfig, **node: Any) -> Devices:
    return Devices(config, 4, **{"state-dir": str(tmp_path / "states")} | node)


def give_roster(grid: Devices, folder: Path) -> Path:
    """Give each device a key and the roster of all; return the roster's folder."""
    names = [f"p{i}" for i in grid.contexts]
    for name in names:
        make_node_key(folder / name)
    add_to_roster(folder, {name: folder / f"{name}.pub" for name in names})
    files = {"secure-roster": ROSTER_FILE, "secure-owner": f"{OWNER_FILE}.pub"}
    for name, context in zip(names, grid.contexts.values(), strict=True):
        own = files | {"secure-key": name}
        context.node_config.update({key: str(folder / file) for key, file in own.items()})
    return folder


def phase(message: Message) -> str:
    """Return what a question about a sum asks for; "": it is none."""
    asked = message.content.config_records.get(SECURE)
    return str(asked.get("phase", "")) if asked is not None else ""
