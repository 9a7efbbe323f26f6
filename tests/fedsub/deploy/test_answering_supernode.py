"""A SuperNode replies to each message, however its app dies."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any

import grpc
import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode, SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.corestate import in_memory_corestate
from flwr.supercore.date import now
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate.nodestate_factory import NodeStateFactory

from fedsub.deploy import answering_supernode
from fedsub.deploy.answering_supernode import AnsweringNodeState, bound_calls
from fedsub.deploy.seconds import LOOK_SECONDS
from fedsub_core.flower.supernode import grpc_calls, grpc_starts

from .raw_device.connection import OVER_HTTP

RUN, NODE = 5, 7


@pytest.fixture(autouse=True)
def undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what is replaced of Flower's calls in the end."""
    if OVER_HTTP:
        return
    calls, starts = grpc_calls(), grpc_starts()
    monkeypatch.setattr(calls, "create_channel", calls.create_channel)
    name = "make_simple_grpc_retry_invoker"
    monkeypatch.setattr(starts, name, getattr(starts, name))


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> AnsweringNodeState:
    # Without a sender Flower makes no message.
    for name in ("run_id", "task_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", RUN)
    state = AnsweringNodeState(ObjectStoreFactory().store())
    state.set_node_id(NODE)
    return state


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have an hour pass for who waits for a task's heartbeats."""

    def pass_an_hour() -> None:
        monkeypatch.setattr(in_memory_corestate, "now", lambda: now() + timedelta(hours=1))

    return pass_an_hour


def messages(state: AnsweringNodeState, **chosen: Any) -> list[Message]:
    """Return what the SuperNode's loop gets of its state: Flower 1.42 renamed it."""
    get: Any = getattr(state, "get_messages_legacy", state.get_messages)
    return list(get(**chosen))


def receive(state: AnsweringNodeState, started: bool = True) -> tuple[Message, int]:
    """Do what a SuperNode does with a message, and its app with the task; the message is left."""
    round = len(state.msg_store) + 1
    message = Message(RecordDict({"turn": ConfigRecord({"round": round})}), NODE, MessageType.TRAIN)
    message.metadata.__dict__["_message_id"] = message.object_id
    task = state.create_task(task_type=TaskType.CLIENT_APP, run_id=RUN)
    assert task is not None
    state.store_message(message)
    if started:
        assert state.claim_task(task) is not None and state.activate_task(task)
    return message, task


def assert_replied(state: AnsweringNodeState, message: Message) -> None:
    [reply] = messages(state, is_reply=True)
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    assert reply.error.code == ErrorCode.CLIENT_APP_CRASHED
    # The SuperNode says how long the app took, and reads what the reply is made of.
    assert 0 <= state.get_message_processing_duration(message.metadata.message_id) < 2
    assert state.object_store.get(reply.metadata.message_id)
    assert not messages(state)  # neither it nor the message once more


@pytest.mark.parametrize("taken", [False, True])
def test_an_app_that_dies_is_replied_for(
    state: AnsweringNodeState, later: Callable[[], None], taken: bool
) -> None:
    message, _ = receive(state)
    if taken:
        assert messages(state, run_ids=[RUN], is_reply=False, limit=1) == [message]
        state.record_message_processing_start(message.metadata.message_id)
    assert not messages(state, is_reply=True)
    later()
    assert_replied(state, message)


def test_so_is_one_that_fails_before_it_has_its_message(state: AnsweringNodeState) -> None:
    message, task = receive(state)
    assert state.finish_task(task, SubStatus.FAILED, "could not be read")
    assert_replied(state, message)


def test_who_has_replied_is_not_replied_for(
    state: AnsweringNodeState, later: Callable[[], None]
) -> None:
    message, task = receive(state)
    assert messages(state, run_ids=[RUN], is_reply=False, limit=1) == [message]
    state.record_message_processing_start(message.metadata.message_id)
    reply = Message(RecordDict(), reply_to=message)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    state.store_message(reply)
    assert state.finish_task(task, SubStatus.FAILED, "")
    later()
    assert messages(state, is_reply=True) == [reply]


@pytest.mark.parametrize("expires", [False, True])
def test_a_message_whose_own_app_is_yet_to_come_is_left_to_it(
    state: AnsweringNodeState, later: Callable[[], None], expires: bool
) -> None:
    """The first app dies as it ends, when its reply has been sent and the next message is there."""
    first, task = receive(state)
    state.delete_messages(message_ids=[first.metadata.message_id])
    second, _ = receive(state, started=False)
    if expires:
        later()
    else:
        assert state.finish_task(task, SubStatus.FAILED, "")
    assert not messages(state, is_reply=True)
    assert messages(state, run_ids=[RUN], is_reply=False, limit=1) == [second]


def test_the_message_of_another_run_is_left_to_its_app(
    state: AnsweringNodeState, later: Callable[[], None]
) -> None:
    message, _ = receive(state)
    message.metadata.__dict__["_run_id"] = RUN + 1
    later()
    assert not messages(state, is_reply=True)


def test_the_program_has_this_state(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    factory = NodeStateFactory(ObjectStoreFactory())
    monkeypatch.setattr(
        answering_supernode, "flower_supernode", lambda: found.append(factory.state())
    )
    monkeypatch.setattr("flwr.supernode.nodestate.nodestate_factory.InMemoryNodeState", None)
    looping = import_module("flwr.supernode.start_client_internal")
    for name in ("time", "_push_messages"):
        monkeypatch.setattr(looping, name, getattr(looping, name))
    answering_supernode.main()
    assert [type(one) for one in found] == [AnsweringNodeState]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Flower's loop, in which whatever main() replaces is put back; it pushes nothing."""
    looping = import_module("flwr.supernode.start_client_internal")
    monkeypatch.setattr(looping, "time", looping.time)
    monkeypatch.setattr(looping, "_push_messages", lambda **keys: None)
    monkeypatch.setattr(answering_supernode, "flower_supernode", lambda: None)
    return looping


@pytest.mark.parametrize(("said", "slept"), [("3", [3, 0.5]), ("0.7", [0.7, 0.5])])
def test_it_looks_for_messages_as_often_as_it_is_told(
    said: str, slept: list[float], looking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setenv(LOOK_SECONDS, said)
    answering_supernode.main()
    # Flower's wait for a message, and for the app's reply.
    looking.time.sleep(3)
    looking.time.sleep(0.5)
    assert waits == slept
    assert looking.time.monotonic is time.monotonic


def test_it_looks_less_often_while_nothing_comes(
    looking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 30 s apart; one that was just served looks at 3 s, however long its app has taken."""
    waits, clock = list[float](), [1000.0]

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.delenv(LOOK_SECONDS, raising=False)
    answering_supernode.main()
    for _ in range(11):
        looking.time.sleep(3)
    assert waits[:4] == [3, 3, 3, 4.5] and waits[-2:] == [30, 30]
    # Who waits for a slower one is late by no more than half of its wait.
    assert all(wait <= max(3, sum(waits[:i]) / 2) for i, wait in enumerate(waits))
    waits.clear()
    clock[0] += 500
    looking._push_messages()
    looking.time.sleep(3)
    looking.time.sleep(0.5)
    assert waits == [3, 0.5]


@pytest.mark.skipif(OVER_HTTP, reason="Flower bounds its calls over HTTP itself")
def test_a_call_that_gets_no_answer_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the SuperLink's machine is cut off, and nothing tells the device."""
    calls, starts = grpc_calls(), grpc_starts()
    monkeypatch.setattr(answering_supernode, "CALL_SECONDS", 0.5)
    came, end = list[bytes](), threading.Event()

    def answer(request: bytes, context: Any) -> bytes:
        came.append(request)
        if len(came) == 1:
            end.wait()
        return b"answered"

    handler = grpc.unary_unary_rpc_method_handler(answer)
    pool = ThreadPoolExecutor(4)
    server = grpc.server(pool)
    handlers = grpc.method_handlers_generic_handler("silent", {"Call": handler})
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        bound_calls()
        channel = calls.create_channel(
            server_address=f"127.0.0.1:{port}", insecure=True, interceptors=[]
        )
        invoker = starts.make_simple_grpc_retry_invoker()
        assert invoker.invoke(channel.unary_unary("/silent/Call"), b"asked") == b"answered"
        assert came == [b"asked"] * 2
    finally:
        end.set()
        server.stop(None).wait()
