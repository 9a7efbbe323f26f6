"""What ``configure_train`` and ``configure_evaluate`` return is what is sent, and no more."""

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType
from flwr.serverapp import Grid

from fedsub.testing.refusals import refused
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, encode_download
from fedsub_core.wire.frame import compress
from strategies.strategy import PersonalizedStrategy

from ..finished_run import MakePeople, RunMethod
from ..tampered_grid import Reply

Messages = Iterable[Message]


class WithoutP2(PersonalizedStrategy):
    """Drops the messages to one client."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Messages:
        written = super().configure_train(server_round, arrays, config, grid)
        p2 = self.population.nodes["p2"]
        return [message for message in written if message.metadata.dst_node_id != p2]


def test_who_is_dropped_is_not_written_to(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), "fedavg", strategy=WithoutP2, rounds=2, quorum=1.0)
    others = ("p1", "p3", "p4")
    assert run.grid.trained == [(1, others), (2, others)]
    assert sorted(run.metric("bytes_down_sent")) == [(r, c) for r in (1, 2) for c in others]
    # Nobody waits for it, and no quorum counts it.
    assert run.metric("missing_replies") == {} and run.refusals == {}
    start = run.strategy.model.init(1, 0)["linear1.weight"][0]
    for client in ("p2", "p3"):
        own = run.client_states()[f"client/{client}"]["model.linear1.weight"]
        assert torch.equal(own, start) == (client == "p2")
    # It still is evaluated: that is another verb's.
    assert run.grid.evaluated == [(r, ("p1", "p2", "p3", "p4")) for r in (1, 2)]


class ZerosForP3(PersonalizedStrategy):
    """Sends one client a model of zeros, compressed, in place of the global one."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Messages:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            if message.metadata.dst_node_id == self.population.nodes["p3"]:
                shapes = self.model.parameter_shapes.items()
                zeros = {name: Floats(np.zeros(shape, np.float32)) for name, shape in shapes}
                receives = self.models.receives(self.model)
                payload = encode_download(
                    Bundle(tensors=zeros), Address("p3", server_round), receives
                )
                message.content[exchange.PAYLOAD] = exchange.pack(compress(payload))
        return messages


def test_another_payload_is_what_arrives_and_what_is_counted(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", strategy=ZerosForP3, rounds=1)
    plain = run_method(people(), "fedavg", rounds=1)
    for client in ("p1", "p3"):
        received = run.grid.downloads[1, client].whole("linear1.weight")
        uploaded = run.grid.uploads[1, client].whole("linear1.weight")
        # From zeros no gradient reaches the first layer, so the device really started there.
        assert received.any() == uploaded.any() == (client != "p3")
    sent, normally = run.metric("bytes_down_sent"), plain.metric("bytes_down_sent")
    assert sent[1, "p3"] == run.grid.downloads[1, "p3"].size < 2000 < normally[1, "p3"]
    assert sent[1, "p1"] == normally[1, "p1"]
    flower, before = run.metric("bytes_down_flower"), plain.metric("bytes_down_flower")
    saved = normally[1, "p3"] - sent[1, "p3"]
    assert before[1, "p3"] - flower[1, "p3"] == saved


class OneByOne(PersonalizedStrategy):
    """Writes messages as they are asked for."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Messages:
        yield from super().configure_train(server_round, arrays, config, grid)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Messages:
        yield from super().configure_evaluate(server_round, arrays, config, grid)


def test_a_generator_is_as_good_as_a_list(people: MakePeople, run_method: RunMethod) -> None:
    run, plain = (run_method(people(), "fedavg", strategy=s) for s in (OneByOne, None))
    assert len(run.grid.trained) == len(run.grid.evaluated) == 2
    assert set(run.rows) == set(plain.rows) and len(run.rows) == len(plain.rows)
    for name, tensor in plain.states[-1].items():
        assert torch.equal(run.states[-1][name], tensor)


class ToAStranger(PersonalizedStrategy):
    """Writes to a node that is no client's, after everybody else."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Messages:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        stray = Message(messages[0].content, 99, MessageType.TRAIN, ttl=9.0, group_id="1")
        return [*messages, stray]


def test_a_message_to_an_unknown_node_is_refused_before_any_is_sent(
    people: MakePeople, run_method: RunMethod
) -> None:
    answered: list[str] = []

    def tamper(reply: Reply) -> Message:
        answered.append(reply.kind)
        return reply.message

    with refused(ValueError, "node 99", expected="[1, 2, 3, 4]"):
        run_method(people(), "fedavg", strategy=ToAStranger, tamper=tamper)
    assert answered == [MessageType.QUERY] * 4


class EvaluatesP4(PersonalizedStrategy):
    """Asks one client how the global model does, and nobody in round 2."""

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Messages:
        written = super().configure_evaluate(server_round, arrays, config, grid)
        p4 = self.population.nodes["p4"]
        chosen = [message for message in written if message.metadata.dst_node_id == p4]
        return [] if server_round == 2 else chosen


def test_evaluation_asks_whom_it_returns(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), "fedavg", strategy=EvaluatesP4, rounds=3)
    assert run.grid.evaluated == [(1, ("p4",)), (3, ("p4",))]
    assert set(run.metric("macro_f1")) == {(1, "p4"), (3, "p4")}
    assert set(run.metric("bytes_evaluation_sent")) == {(1, "p4"), (3, "p4")}
    assert set(run.result.evaluate_metrics_clientapp) == {1, 3}


class Twice(PersonalizedStrategy):
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        return [*messages, messages[0]]


def test_two_messages_to_one_client_are_refused(people: MakePeople, run_method: RunMethod) -> None:
    with pytest.raises(ValueError, match="two messages"):
        run_method(people(), "fedavg", strategy=Twice, rounds=1)
