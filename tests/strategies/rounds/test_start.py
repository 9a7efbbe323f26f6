"""What ``start`` makes of its arguments: honoured, or refused by name."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from torch import Tensor

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import mlp
from strategies.rounds.transport import Transport
from strategies.strategy import PersonalizedStrategy

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..tampered_grid import Reply


class Evaluation:
    """A server's own evaluation, which notes what it is given; None in odd rounds."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.given: dict[int, dict[str, Any]] = {}

    def __call__(self, round: int, arrays: ArrayRecord) -> MetricRecord | None:
        self.events.append(f"evaluate {round}")
        self.given[round] = {name: array.numpy() for name, array in arrays.items()}
        return None if round % 2 else MetricRecord({"double": 2.0 * round})

    def note(self, round: int, run: FinishedRun) -> None:
        self.events.append(f"round {round}")


@pytest.mark.parametrize("name", ["fedavg", "fedsub", "local"])
def test_the_server_evaluates_its_state_before_the_first_round_and_after_each(
    people: MakePeople, run_method: RunMethod, name: str
) -> None:
    evaluation = Evaluation()
    run = run_method(
        people(),
        name,
        rounds=3,
        after_round=evaluation.note,
        start={"evaluate_fn": evaluation},
    )
    assert evaluation.events == [
        "evaluate 0",
        *[f"{what} {round}" for round in (1, 2, 3) for what in ("round", "evaluate")],
    ]
    assert {r: dict(m) for r, m in run.result.evaluate_metrics_serverapp.items()} == {
        0: {"double": 0.0},
        2: {"double": 4.0},
    }
    for round, state in enumerate(run.states, start=1):
        assert evaluation.given[round].keys() == state.keys()
        for key, tensor in state.items():
            found = evaluation.given[round][key]
            assert (found == tensor.numpy()).all() and found.dtype == tensor.numpy().dtype
    if name == "fedavg":
        start = {key: t[0].numpy() for key, t in mlp(4, 3).init(1, 0).items()}
        assert all((evaluation.given[0][key] == array).all() for key, array in start.items())


def test_a_run_that_goes_on_is_not_evaluated_before_its_first_round(people: MakePeople) -> None:
    config, federation = read_config(None, {"method": "fedavg", "rounds": 3}), people()
    saved: dict[int, dict[str, Tensor]] = {}
    grid, strategy = build_grid(config, "fedavg", federation), build_strategy(config, "fedavg")
    strategy.on_round = lambda round, state, _: saved.update({round: dict(state)})
    strategy.start(grid, num_rounds=1)
    continued, evaluation = build_strategy(config, "fedavg"), Evaluation()
    continued.resume(1, saved[1])
    result = continued.start(grid, evaluate_fn=evaluation)
    grid.close()
    assert evaluation.events == ["evaluate 2", "evaluate 3"]
    assert set(result.evaluate_metrics_serverapp) == {2}


def test_clients_metrics_are_returned_as_their_mean(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", rounds=3, evaluate_every=2)
    means = run.result.evaluate_metrics_clientapp
    assert set(means) == {2, 3}
    for round, mean in means.items():
        for name in ("macro_f1", "loss"):
            each = [v for (r, _), v in run.metric(name).items() if r == round]
            assert len(each) == 4 and mean[name] == pytest.approx(np.mean(each))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("initial_arrays", ArrayRecord({"weight": Array(np.ones(2))})),
        ("train_config", ConfigRecord({"lr": 0.1})),
        ("evaluate_config", ConfigRecord({"batch": 7})),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    people: MakePeople, run_method: RunMethod, argument: str, value: Any
) -> None:
    asked: list[str] = []

    def tamper(reply: Reply) -> Message:
        asked.append(reply.kind)
        return reply.message

    with refused(ConfigError, f"start: {argument}", expected="nothing"):
        run_method(people(), "fedavg", tamper=tamper, start={argument: value})
    assert asked == []


def test_empty_records_are_nothing(people: MakePeople, run_method: RunMethod) -> None:
    """What Flower's own examples pass is as good as nothing."""
    empty = {
        "initial_arrays": ArrayRecord(),
        "train_config": ConfigRecord(),
        "evaluate_config": ConfigRecord(),
    }
    run, plain = (run_method(people(), "fedavg", start=start) for start in (empty, None))
    for name, tensor in plain.states[-1].items():
        assert torch.equal(run.states[-1][name], tensor)


@pytest.mark.parametrize("rounds", [1, 3])
def test_as_many_rounds_are_run_as_are_asked_for(
    people: MakePeople, run_method: RunMethod, rounds: int
) -> None:
    """Fewer or more than the two of the configuration; the last is evaluated."""
    run = run_method(people(), "fedavg", evaluate_every=9, start={"num_rounds": rounds})
    assert run.strategy.finished_rounds == len(run.states) == rounds
    assert [round for round, _ in run.grid.trained] == list(range(1, rounds + 1))
    assert [round for round, _ in run.grid.evaluated] == [rounds]


def silent_p2(reply: Reply) -> Message | None:
    return None if (reply.kind, reply.client) == (MessageType.TRAIN, "p2") else reply.message


@pytest.mark.parametrize("timeout", [0.05, 0.7])
def test_a_round_waits_as_long_as_is_asked_for(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    waited: list[float] = []
    deliver = Transport.deliver

    def timed(*args: Any) -> Iterator[Message]:
        since = time.monotonic()
        yield from deliver(*args)
        waited.append(time.monotonic() - since)

    monkeypatch.setattr(Transport, "deliver", timed)
    run = run_method(
        people(samples=6),
        "fedavg",
        tamper=silent_p2,
        rounds=1,
        round_timeout=300.0,
        start={"timeout": timeout},
    )
    assert run.metric("missing_replies") == {(1, "p2"): 1}
    training, _ = waited
    assert timeout <= training < 100


@pytest.mark.parametrize("rounds", [1, 3])
def test_devices_are_told_of_as_many_rounds_as_start_is(
    people: MakePeople, run_method: RunMethod, rounds: int
) -> None:
    run = run_method(people(), "fedavg", start={"num_rounds": rounds})
    assert run.grid.instructions is not None and run.grid.instructions["rounds"] == rounds
    assert run.strategy.turn(1).rounds == rounds


class Lifetimes(PersonalizedStrategy):
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self.ttl = min(message.metadata.ttl for message in messages)
        return messages


def test_a_message_lives_as_long_as_its_round(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(
        people(), "fedavg", strategy=Lifetimes, rounds=1, round_timeout=1.0, start={"timeout": 50.0}
    )
    assert isinstance(run.strategy, Lifetimes) and run.strategy.ttl >= 50.0
