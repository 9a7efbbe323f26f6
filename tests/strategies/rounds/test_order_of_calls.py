"""A half that keeps what it was told is found out; a driver refuses verbs in another order."""

from collections.abc import Mapping, Sequence

import pytest
from flwr.app import ArrayRecord

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.order_tests import calls_of, differing
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedavg import FedAvgServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

CONFIG = RunConfig(method="fedavg", beside="", device="cpu", threads=1)


class Remembers(FedAvgServer):
    """Sends as many numbers less as it has taken uploads."""

    taken = 0

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        sent = super().downloads(state, round, clients)
        parts = {n: Floats(one.floats(n) - self.taken) for one in sent for n in one.tensors}
        return [Bundle(tensors=parts)] * len(clients)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        self.taken += len(uploads)
        return super().aggregate(state, round, uploads)


def test_a_half_that_keeps_what_it_was_told_is_found_out() -> None:
    settings = CONFIG.server_settings("fedavg")
    calls = calls_of("fedavg", Remembers)
    assert "downloads" in differing(Remembers(settings), calls)
    assert differing(FedAvgServer(settings), calls_of("fedavg")) == []


def test_uploads_of_a_round_that_was_not_begun_are_refused() -> None:
    grid, strategy = build_grid(CONFIG, "fedavg", people()), build_strategy(CONFIG, "fedavg")
    try:
        strategy.connect(grid)
        with refused(RunError, got="round 1", expected="none"):
            strategy.aggregate_train(1, [])
        list(strategy.configure_train(1, ArrayRecord(), None, grid))  # type: ignore[arg-type]
        before = dict(strategy.state or {})
        with pytest.raises(RunError, match=r"got round 2, expected .* began last: 1"):
            strategy.aggregate_train(2, [])
        assert strategy.state == before
    finally:
        grid.close()
