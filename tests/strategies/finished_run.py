"""What the rounds of a test's run left behind."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from flwr.serverapp.strategy import Result
from torch import Tensor

from fedsub_client.split_client import SplitClient
from fedsub_core.data.federation import Federation
from fedsub_core.metrics import MetricRow
from strategies.strategy import PersonalizedStrategy

from .sent_bundle import Floats
from .tampered_grid import TamperedGrid


@dataclass
class FinishedRun:
    """A run of a few rounds: its strategy, grid, metrics, and the state after each round."""

    strategy: PersonalizedStrategy
    grid: TamperedGrid
    rows: list[MetricRow] = field(default_factory=list)
    states: list[dict[str, Tensor]] = field(default_factory=list)
    result: Result = field(default_factory=Result)

    @property
    def clients(self) -> list[SplitClient]:
        """The devices' data, split."""
        return [client for cohort in self.grid.grid.cohorts for client in cohort.clients]

    @property
    def refusals(self) -> dict[str, int]:
        """How many messages of each client were refused."""
        return dict(self.strategy.transport.refusals)

    def client_states(self) -> dict[str, dict[str, Tensor]]:
        """Return what the devices keep, by ``client/<id>``."""
        return self.grid.grid.state()

    def metric(self, name: str) -> dict[tuple[int, str], float]:
        """Return a metric that is not by class, by round and client."""
        return {(r.round, r.client): r.value for r in self.rows if r.metric == name}

    def told(self, key: str) -> Floats:
        """Return the mean or deviation that the server last told the devices."""
        assert self.grid.instructions is not None
        data = self.grid.instructions[key]
        assert isinstance(data, bytes)
        return np.frombuffer(data, "<f4")


#: The fixtures `people` and `run_method`.
MakePeople = Callable[..., Federation]
RunMethod = Callable[..., FinishedRun]
