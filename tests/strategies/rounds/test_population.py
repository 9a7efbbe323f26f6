"""Who takes part in a round: drawn by seed, chosen by the method, held out until the end."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub_core.config.settings import RoundSettings
from fedsub_core.data.held_out import unseen_clients
from fedsub_core.data.standardise import Moments
from fedsub_core.turn import Turn
from fedsub_core.wire.daily_hours import DailyHours
from fedsub_core.wire.handshake import Facts, Introduction
from strategies.methods.fedavg import FedAvgServer
from strategies.rounds.agreement import Agreement
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.population import Population
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

from ..finished_run import MakePeople, RunMethod

EVERYBODY = ("p1", "p2", "p3", "p4", "p5")
FIVE = ((0, 1, 2),) * 5


def test_clients_are_drawn_by_seed_and_round_alone(
    people: MakePeople, run_method: RunMethod
) -> None:
    def drawn(seed: int) -> list[tuple[str, ...]]:
        keys = {"clients_per_round": 2, "rounds": 12, "seed": seed}
        trained = run_method(people(FIVE, samples=6), "local", **keys).grid.trained
        assert [round for round, _ in trained] == list(range(1, 13))
        return [clients for _, clients in trained]

    first = drawn(1)
    assert first == drawn(1) and first != drawn(2)
    assert all(len(set(c)) == 2 and list(c) == sorted(c) for c in first)
    assert {client for c in first for client in c} == set(EVERYBODY)
    assert len(set(first)) > 3


def test_a_client_that_is_not_drawn_keeps_its_model(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "local", clients_per_round=1, rounds=1)
    (_, drawn), *_ = run.grid.trained
    start = run.strategy.model.init(1, 0)["linear1.weight"][0]
    for group, tensors in run.client_states().items():
        trained = not torch.equal(tensors["model.linear1.weight"], start)
        assert trained == (group == f"client/{drawn[0]}")
    assert len(run.metric("macro_f1")) == 4


def test_unseen_people_join_in_the_last_rounds(people: MakePeople, run_method: RunMethod) -> None:
    keys = {"split": "unseen", "unseen_share": 0.4, "unseen_rounds": 2, "rounds": 5}
    run = run_method(people(FIVE), "fedavg", **keys)
    unseen = tuple(unseen_clients(EVERYBODY, 0.4, 0))
    assert len(unseen) == 2
    seen = tuple(c for c in EVERYBODY if c not in unseen)
    assert run.grid.trained == [(r, seen if r <= 3 else EVERYBODY) for r in range(1, 6)]
    assert run.grid.evaluated == [(r, seen if r <= 3 else unseen) for r in range(1, 6)]
    # Nor do they shape the standardisation that they are tested with.
    means = [c.train_x.mean(0, np.float64) for c in run.clients if c.client in seen]
    np.testing.assert_allclose(run.told("mean"), np.median(means, 0), rtol=1e-6)


def test_all_of_the_smallest_capacity_join_in_the_last_round(
    people: MakePeople, run_method: RunMethod
) -> None:
    """The server goes by what devices say; the other half of the run is as of a random share."""
    weak = EVERYBODY[1], EVERYBODY[4]
    capacities = ",".join(f"{client}=0.25" for client in weak)
    keys = {"split": "unseen", "unseen_by": "smallest", "unseen_rounds": 1, "rounds": 2}
    run = run_method(people(FIVE), "heterofl", capacities=capacities, **keys)
    strong = tuple(c for c in EVERYBODY if c not in weak)
    assert run.grid.trained == [(1, strong), (2, EVERYBODY)]
    assert run.grid.evaluated == [(1, strong), (2, weak)]


class TakesTurns(FedAvgServer):
    """Asks one client a round, in the order of their ids."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[Turn] = []

    def participants(self, state: State, round: Round) -> list[str]:
        assert "linear1.weight" in state
        self.asked.append(round.turn)
        return [round.clients[round.number - 1]]


def test_a_method_chooses_its_participants(people: MakePeople, run_method: RunMethod) -> None:
    # Whatever clients-per-round says: what it draws is what a method may replace.
    run = run_method(people(), "fedavg", strategy=TakesTurns, rounds=3, seed=9, clients_per_round=2)
    assert run.grid.trained == [(1, ("p1",)), (2, ("p2",)), (3, ("p3",))]
    assert sorted(run.metric("bytes_up_sent")) == [(1, "p1"), (2, "p2"), (3, "p3")]
    assert isinstance(run.strategy.half, TakesTurns)
    assert run.strategy.half.asked == [Turn(1, 3, 9), Turn(2, 3, 9), Turn(3, 3, 9)]
    # Everybody is still evaluated with the global model.
    assert run.grid.evaluated == [(r, ("p1", "p2", "p3", "p4")) for r in (1, 2, 3)]


class AsksTheLargest(FedAvgServer):
    """Asks the two clients with most samples, among those drawn for it."""

    def participants(self, state: State, round: Round) -> list[str]:
        def examples(client: str) -> int:
            return round.facts[client].examples

        return sorted(sorted(super().participants(state, round), key=examples)[-2:])


def test_a_method_may_choose_by_what_it_knows_of_clients(
    people: MakePeople, run_method: RunMethod
) -> None:
    # p4 has one class alone, so the largest are p3 and p5.
    classes = ((0, 1, 2), (0, 1, 2), (0, 1, 2), (0,), (0, 1, 2))
    run = run_method(people(classes), "fedavg", strategy=AsksTheLargest, rounds=1)
    assert run.grid.trained == [(1, ("p3", "p5"))]


class AllInTheSecond(FedAvgServer):
    """Wants everybody in round 2."""

    def wants_all(self, turn: Turn) -> bool:
        return turn.round == 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_round_that_wants_all_asks_all_but_held_out_people(
    people: MakePeople, run_method: RunMethod, count: int
) -> None:
    keys = {"split": "unseen", "unseen_share": 0.4, "unseen_rounds": 1, "rounds": 3}
    run = run_method(
        people(FIVE), "fedavg", strategy=AllInTheSecond, clients_per_round=count, **keys
    )
    seen = tuple(c for c in EVERYBODY if c not in unseen_clients(EVERYBODY, 0.4, 0))
    assert len(seen) == 3
    (_, first), (_, second), (_, third) = run.grid.trained
    assert len(first) == count and set(first) < set(seen)
    assert second == seen
    assert len(third) == count


def test_who_says_that_it_is_not_its_hour_is_not_asked() -> None:
    """One has an hour from now on, two have one tomorrow, a third says none."""
    hours = {"p1": DailyHours(0.0, 3600), "p2": DailyHours(80_000.0, 3600), "p3": None}
    nothing = Moments(0, np.zeros(0), np.zeros(0))
    said = {
        c: Introduction(c, "1", ("a",), (1,), Facts(9, hours=own), nothing)
        for c, own in hours.items()
    }
    nodes = {client: node for node, client in enumerate(hours)}
    registry = NodeRegistry(nodes, said, set(hours))
    settings = RoundSettings(clients_per_round=1, ask=1.5, round_timeout=600.0)
    found = Population(registry, Agreement(("a",), (1,), None, frozenset()), settings)
    assert found.taking_part(1) == ["p1", "p3"] and found.resting(1) == ["p2"]
    found.now = 3599.0  # one second of 600 is left: the other is drawn
    assert {tuple(found.sample(round)) for round in range(1, 40)} >= {("p1", "p3")}
    found.settings = RoundSettings(clients_per_round=1, ask=1.0, draw="attendance")
    drawn = [found.sample(round) for round in range(1, 40)]
    assert drawn.count(["p3"]) > 35
    found.now = 4000.0
    assert found.taking_part(1) == found.evaluated(1) == ["p3"]
    found.busy, found.working = frozenset({"p3"}), 1
    assert found.taking_part(1) == [], "its upload is awaited: nobody else's hour is ignored"
    found.busy, found.working = frozenset(), 0
    registry.online -= {"p3"}
    assert found.taking_part(1) == ["p1", "p2"], "all, where it is nobody's hour"
    drawn = [found.sample(round) for round in range(1, 40)]
    assert 10 < drawn.count(["p1"]) < 30 and all(len(each) == 1 for each in drawn)
