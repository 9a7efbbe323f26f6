"""CohortGrid: how clients are stacked is nobody's business but its own."""

import gc
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType, RecordDict
from torch import Tensor

from fedsub.engines import cohort_grid, stacks
from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.engines.stacks import stacks_of
from fedsub_client.methods.fedsub import relevance
from fedsub_core.capacity import Capacity
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, encode_download
from fedsub_core.wire.exchange import Instructions
from fedsub_core.wire.lazy_message import LazyMessage
from strategies.rounds import link
from strategies.rounds.server_half import State
from strategies.strategy import PersonalizedStrategy

Town = Callable[..., Federation]


def config(method: str, **keys: Any) -> RunConfig:
    keys = dict[str, Any](rounds=3, device="cpu", threads=1) | keys
    return RunConfig(method=method, beside="", **keys)


@contextmanager
def grid_of(federation: Federation, method: str, **keys: Any) -> Iterator[CohortGrid]:
    grid = build_grid(config(method, **keys), method, federation)
    try:
        yield grid
    finally:
        grid.close()


class Outcome:
    """What is left after a run: server state, client states, metrics, sizes of the stacks."""

    def __init__(self, federation: Federation, method: str, **keys: Any) -> None:
        rows: list[MetricRow] = []
        strategy = build_strategy(config(method, **keys), method)
        strategy.on_round = lambda round, state, new: rows.extend(new)
        with grid_of(federation, method, **keys) as grid:
            strategy.start(grid)
            self.stacks = sorted(len(cohort.clients) for cohort in grid.cohorts)
            self.groups: dict[str, State] = {"server": strategy.state or {}, **grid.state()}
        self.metrics = {row[:4]: row.value for row in rows}


def assert_equal(a: Outcome, b: Outcome) -> None:
    assert a.groups.keys() == b.groups.keys()
    for group, tensors in a.groups.items():
        assert tensors.keys() == b.groups[group].keys()
        assert all(torch.equal(tensor, b.groups[group][name]) for name, tensor in tensors.items())
    assert a.metrics == b.metrics


@pytest.mark.parametrize("method", ["fedsub", "fedavg"])
def test_stack_sizes_and_threads_change_no_result(
    town: Town, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    outcomes = []
    for chunk, threads in ((1, 1), (8, 1), (8, 2), (3, 2)):
        monkeypatch.setitem(stacks.CHUNK, "cpu", chunk)
        outcomes.append(Outcome(town(7), method, threads=threads))
    assert [o.stacks for o in outcomes] == [[1] * 7, [7], [3, 4], [1, 2, 2, 2]]
    for other in outcomes[1:]:
        assert_equal(outcomes[0], other)


@pytest.mark.parametrize(("method", "encoding"), [("fedsub", "delta"), ("fedavg", "float32")])
def test_who_is_drawn_from_several_stacks_trains_as_alone(
    town: Town, monkeypatch: pytest.MonkeyPatch, method: str, encoding: str
) -> None:
    keys = {"clients_per_round": 5, "rounds": 5, "upload_encoding": encoding}
    monkeypatch.setitem(stacks.CHUNK, "cpu", 1)
    alone = Outcome(town(9), method, **keys)
    for chunk, threads in ((3, 1), (2, 2)):
        monkeypatch.setitem(stacks.CHUNK, "cpu", chunk)
        drawn = Outcome(town(9), method, threads=threads, **keys)
        assert max(drawn.stacks) == chunk
        assert_equal(alone, drawn)


@pytest.mark.parametrize("method", ["fedsub", "fedavg", "fedsub-ridge"])
@pytest.mark.parametrize(
    ("bound", "most", "parts"), [("AT_ONCE", 3, [4, 3]), ("BYTES_AT_ONCE", 1, [2, 2, 2, 1])]
)
def test_messages_that_are_given_some_at_a_time_give_the_same(
    bound: str,
    most: int,
    parts: list[int],
    town: Town,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    monkeypatch.setitem(stacks.CHUNK, "cpu", 2)
    keys = {} if method != "fedsub-ridge" else {"encoder": "relu:8"}
    at_once = Outcome(town(7), method, **keys)
    given: list[tuple[str, int]] = []
    push = CohortGrid.push_messages

    def push_some(grid: CohortGrid, messages: Sequence[Message]) -> Any:
        given.append((messages[0].metadata.message_type, len(messages)))
        assert not grid._replies, "the replies before were read"
        return push(grid, messages)

    monkeypatch.setattr(CohortGrid, "push_messages", push_some)
    monkeypatch.setattr(link, bound, most)
    some = Outcome(town(7), method, **keys)
    assert_equal(at_once, some)
    assert [n for kind, n in given if kind == MessageType.TRAIN] == parts * 3, "whole stacks"


@pytest.mark.parametrize(("method", "models"), [("fedavg", 1), ("ditto", 24)])
def test_what_all_begin_with_is_held_once(town: Town, method: str, models: int) -> None:
    """Of many people it would take more memory than all rounds, also where a run goes on."""
    with grid_of(town(12), method, hidden="64") as grid:
        begun = grid.state()
        first = begun["client/p1"]
        model = sum(t.nbytes for n, t in first.items() if n.endswith(".weight"))
        model //= 1 if models == 1 else 2  # ditto keeps a second one, and each its own
        assert held(grid) == models * model
        grid.load_state({c: {n: t.clone() for n, t in of.items()} for c, of in begun.items()})
        assert held(grid) == models * model
        for client, of in grid.state().items():
            assert all(torch.equal(tensor, begun[client][name]) for name, tensor in of.items())


def held(grid: CohortGrid) -> int:
    """Return the bytes of the weights that people keep, each place once."""
    states = grid.state().values()
    rows = [t for own in states for name, t in own.items() if name.endswith(".weight")]
    return sum({t.data_ptr(): t.nbytes for t in rows}.values())


def test_no_message_to_a_client_of_this_process_is_written(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise AssertionError("a message was written")

    keys = {"upload_encoding": "int8", "download_encoding": "bfloat16"}
    with monkeypatch.context() as never:
        never.setattr(LazyMessage, "to_bytes", fail)
        handed = Outcome(town(3), "fedavg", **keys)
    monkeypatch.setattr(CohortGrid, "by_reference", False)
    assert_equal(handed, Outcome(town(3), "fedavg", **keys))


class Zeros(PersonalizedStrategy):
    """Looks at its messages, and sends p1 a model of zeros in place of the global one."""

    def configure_train(self, server_round: int, *given: Any) -> list[Message]:
        messages = list(super().configure_train(server_round, *given))
        for message in messages:
            if message.metadata.dst_node_id == self.population.nodes["p1"]:
                shapes = self.model.parameter_shapes.items()
                zeros = {name: Floats(np.zeros(shape, np.float32)) for name, shape in shapes}
                address, receives = Address("p1", server_round), self.models.receives(self.model)
                payload = encode_download(Bundle(tensors=zeros), address, receives)
                message.content[exchange.PAYLOAD] = exchange.pack(payload)
        return messages


def test_what_a_strategy_makes_of_a_message_is_what_arrives(town: Town) -> None:
    strategy = Zeros(config("fedavg").server_settings("fedavg"))
    with grid_of(town(3), "fedavg", rounds=1) as grid:
        strategy.start(grid, num_rounds=1)
        first = {c: own["model.linear1.weight"] for c, own in grid.state().items()}
    # From zeros no gradient reaches the first layer.
    assert not first["client/p1"].any() and first["client/p2"].any()


def test_stacks_that_do_not_fit_are_made_anew(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"encoder": "relu:8"}
    kept = Outcome(town(5), "fedsub-ridge", **keys)
    monkeypatch.setattr(cohort_grid, "STACKS_BYTES", 1)
    assert_equal(kept, Outcome(town(5), "fedsub-ridge", **keys))
    with grid_of(town(5), "fedsub-ridge", **keys) as grid:
        build_strategy(config("fedsub-ridge", **keys), "fedsub-ridge").start(grid)
        assert all(cohort.data._made is None for cohort in grid.cohorts)


def test_a_grid_that_is_dropped_takes_no_memory(town: Town) -> None:
    with grid_of(town(), "local") as grid:
        build_strategy(config("local"), "local").start(grid)
    left = weakref.ref(grid.cohorts[0])
    gc.disable()  # which would come some time, hundreds of megabytes later
    try:
        del grid
        assert left() is None
    finally:
        gc.enable()


def test_stacks_are_of_like_clients() -> None:
    counts = [100, 30, 25, 24, 20, 5, 4, 2]
    whole = [1.0] * len(counts)
    assert stacks_of(whole, counts, 3, 4) == [slice(0, 3), slice(3, 5), slice(5, 8)]
    assert stacks_of(whole, counts, 8, math.inf) == [slice(0, 8)]
    assert stacks_of([1.0], [3], 8, 4) == [slice(0, 1)]
    assert stacks_of([1, 1, 0.5, 0.5], [3, 2, 9, 9], 8, 4) == [slice(0, 2), slice(2, 4)]


@pytest.mark.parametrize("method", ["fedsub", "fedsub-gated", "fedavg"])
def test_who_has_most_samples_has_a_stack_and_shares_the_work(
    town: Town, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The numbers of one stack in one thread."""
    people = town(5)
    small = people.clients["p1"]
    x, y = np.tile(small.x, (20, 1)), np.tile(small.y, 20)
    giant = Federation(people.card, people.clients | {"p1": ClientData("p1", x, y)})
    monkeypatch.setattr(relevance, "BLOCK_VALUES", 2**12)  # some blocks in spite of little data
    spread = Outcome(giant, method, threads=2)
    monkeypatch.setitem(stacks.LIKE, "cpu", math.inf)
    together = Outcome(giant, method, threads=1)
    assert spread.stacks == [1, 1, 3] and together.stacks == [5]
    assert_equal(spread, together)


@pytest.mark.parametrize(("sampled", "ready"), [(0, 6), (2, 0)])
def test_data_of_clients_who_rest_do_not_lie_ready(town: Town, sampled: int, ready: int) -> None:
    keys = {"clients_per_round": sampled, "rounds": 2}
    strategy = build_strategy(config("fedsub", **keys), "fedsub")
    with grid_of(town(6), "fedsub", **keys) as grid:
        cohorts = grid.cohorts
        strategy.start(grid)
        assert strategy.finished_rounds == 2  # everybody was tested, too
        held = [client for one in cohorts if one.data._made for client in one.clients]
        assert len(held) == ready


def told(
    grid: CohortGrid, method: str, clients: Sequence[str], round: int, kind: str = MessageType.TRAIN
) -> list[Message]:
    """Return messages with empty downloads to some clients."""
    nodes = {cohort.clients[i].client: node for node, (cohort, i) in grid._where.items()}
    record = Instructions(Turn(round, 3, 0), method).record()
    messages = []
    for client in clients:
        payload = exchange.pack(encode_download(Bundle(), Address(client, round), {}))
        content = RecordDict({exchange.PAYLOAD: payload, exchange.TURN: record})
        messages.append(Message(content, nodes[client], kind, group_id="1"))
    return messages


def copied(state: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    return {group: {k: t.clone() for k, t in tensors.items()} for group, tensors in state.items()}


@pytest.mark.parametrize("method", ["fedsub", "local", "fedavg"])
def test_only_the_addressed_clients_change(town: Town, method: str) -> None:
    with grid_of(town(5), method) as grid:
        before = copied(grid.state())
        replies = list(grid.send_and_receive(told(grid, method, ["p4", "p2"], 1)))
        assert len(replies) == 2 and not any(reply.has_error() for reply in replies)
        for group, tensors in grid.state().items():
            changed = any(not torch.equal(t, before[group][name]) for name, t in tensors.items())
            assert changed == (group in ("client/p2", "client/p4"))
        after = copied(grid.state())
        everybody = [f"p{i}" for i in range(1, 6)]
        evaluated = list(
            grid.send_and_receive(told(grid, method, everybody, 1, MessageType.EVALUATE))
        )
        assert len(evaluated) == 5
        for group, tensors in grid.state().items():
            assert all(torch.equal(t, after[group][name]) for name, t in tensors.items())


def test_state_goes_out_and_in_again(town: Town) -> None:
    everybody = ["p1", "p2", "p3"]
    with grid_of(town(3), "fedsub") as grid, grid_of(town(3), "fedsub", threads=2) as other:
        list(grid.send_and_receive(told(grid, "fedsub", everybody, 1)))
        saved = copied(grid.state())
        list(grid.send_and_receive(told(grid, "fedsub", everybody, 2)))
        further = copied(grid.state())
        grid.load_state(saved)
        other.load_state(dict(reversed(saved.items())))
        for restored in (grid, other):
            for group, tensors in restored.state().items():
                assert all(torch.equal(t, saved[group][name]) for name, t in tensors.items())
        list(grid.send_and_receive(told(grid, "fedsub", everybody, 2)))
        for group, tensors in grid.state().items():
            assert all(torch.equal(t, further[group][name]) for name, t in tensors.items())
        # What was loaded is not written over by what comes later.
        assert not torch.equal(
            saved["client/p1"]["model.linear1.weight"],
            further["client/p1"]["model.linear1.weight"],
        )
        del saved["client/p2"]
        with pytest.raises(RunError, match="lacks clients p2"):
            grid.load_state(saved)


def test_a_download_for_somebody_else_is_answered_with_an_error(town: Town) -> None:
    with grid_of(town(3), "local") as grid:
        before = copied(grid.state())
        first, second, third = told(grid, "local", ["p1", "p2", "p3"], 1)
        first.content[exchange.PAYLOAD] = second.content[exchange.PAYLOAD]
        third.content[exchange.PAYLOAD] = exchange.pack(b"\xff\xff")
        replies = {
            reply.metadata.reply_to_message_id: reply
            for reply in grid.send_and_receive([first, second, third])
        }
        wrong, right, damaged = (replies[m.metadata.message_id] for m in (first, second, third))
        assert wrong.has_error() and "client id: got 'p2', expected 'p1'" in str(wrong.error.reason)
        assert damaged.has_error() and "2 bytes" in str(damaged.error.reason)
        assert not right.has_error()
        for group, tensors in grid.state().items():
            changed = any(not torch.equal(t, before[group][name]) for name, t in tensors.items())
            assert changed == (group == "client/p2")


def test_flowers_grid(town: Town) -> None:
    """Messages of the older constructor, pushed and pulled; each reply comes once."""
    with grid_of(town(3), "local") as grid:
        nodes = list(grid.get_node_ids())
        assert nodes == [1, 2, 3] and [n.node_id for n in grid.get_nodes()] == nodes
        asked = [grid.create_message(RecordDict(), MessageType.QUERY, node, "g") for node in nodes]
        ids = list(grid.push_messages(asked))
        assert len(set(ids)) == 3
        replies = list(grid.pull_messages(ids))
        assert [reply.metadata.reply_to_message_id for reply in replies] == ids
        assert [reply.metadata.src_node_id for reply in replies] == nodes
        assert list(grid.pull_messages(ids)) == []
        records = [reply.content.config_records[handshake.HANDSHAKE] for reply in replies]
        said = [handshake.read_introduction(record) for record in records]
        # The largest first, so that like sizes share a stack.
        assert [one.client for one in said] == ["p3", "p2", "p1"]
        for one in said:
            assert one.shape == (4,) and one.classes == ("sit", "walk", "run")
            assert one.moments.count == one.facts.examples > 0 and one.facts.capacity == Capacity()
            # Nobody is left out here, so there is nothing to count as in a simulation of Flower's.
            assert (one.people, one.nodes) == (0, 0)
