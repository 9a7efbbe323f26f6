"""``fedsub-supernode``: Flower's SuperNode, which an app that dies at its start cannot stop.

A SuperNode waits for the app's reply to a message before it asks for the next one. Where the app
dies, Flower 1.39 replies in its place, but only if the app had taken the message: one that dies
between taking its task and the message, or fails to read it, leaves the SuperNode waiting for ever,
connected and deaf to every later message and run. Here such a message, too, is replied to: the app
has crashed. The server then sends it again.

Where a SuperLink's machine is cut off, nothing tells Flower's gRPC calls, which wait for ever. Here
each has a bound, and is made again.

Flower's looks for a message every 3 s, however long none has come. This one does so at first, and
less and less often while none comes (`fedsub_core/looks.py`). FEDSUB_LOOK_SECONDS says a shorter
pause, which then stays as it is.
"""

import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import grpc

from fedsub.deploy.parent import hide_memory
from fedsub.deploy.seconds import LOOK_SECONDS, read_seconds
from fedsub_core import looks
from fedsub_core.errors import FedSubError
from fedsub_core.flower.modules import GRPC, demand_deployable
from fedsub_core.flower.supernode import (
    CLIENT_APP_CRASHED_ERROR,
    InMemoryNodeState,
    Status,
    SubStatus,
    Task,
    TaskType,
    flower_supernode,
    grpc_calls,
    grpc_starts,
    loop,
    state_factory,
)
from fedsub_core.logs import set_up_logs

#: What a SuperLink with few devices still bears.
_LEAST_SECONDS = 0.1
#: Seconds of a call to the SuperLink: somewhat more than it waits for all of one.
CALL_SECONDS = 330.0


class AnsweringNodeState(InMemoryNodeState):
    """A SuperNode's state in which no message is left without an app and without a reply."""

    def finish_task(self, task_id: int, sub_status: str, details: str) -> bool:
        """Finish a task; where its app failed without a reply, reply in its place."""
        finished = super().finish_task(task_id, sub_status, details)
        if finished and sub_status == SubStatus.FAILED:
            with self.lock_task_store:
                task = self.task_store[task_id]
                if task.type == TaskType.CLIENT_APP and self._nobody_comes(task.run_id):
                    self._take_messages(task.run_id)
                    self._store_error_replies({task.run_id}, CLIENT_APP_CRASHED_ERROR)
        return finished

    def _on_task_tokens_expired(self, tasks: list[Task]) -> None:
        for run in {task.run_id for task in tasks}:
            if self._nobody_comes(run):
                self._take_messages(run)
        super()._on_task_tokens_expired(tasks)

    def _nobody_comes(self, run: int) -> bool:
        """Return whether no app of a run works or is to be started: each message has its own."""
        states = (task.status.status for task in self.task_store.values() if task.run_id == run)
        return all(state == Status.FINISHED for state in states)

    def _take_messages(self, run: int) -> None:
        """Mark a run's messages as taken, as their app would have done."""
        with self.lock_msg_store:
            for entry in self.msg_store.values():
                metadata = entry.message.metadata
                untaken = not (entry.is_retrieved or metadata.reply_to_message_id)
                if untaken and metadata.run_id == run:
                    entry.is_retrieved = True
                    self.record_message_processing_start(metadata.message_id)


class Deadline(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """An interceptor that limits each call to the SuperLink, which may be gone in silence."""

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], details: Any, request: Any
    ) -> Any:
        """Make a call with a time limit of CALL_SECONDS, unless it has one."""
        return continuation(details._replace(timeout=details.timeout or CALL_SECONDS), request)


def bound_calls() -> None:
    """Limit 1.39's calls to the SuperLink to CALL_SECONDS, after which they are repeated."""
    calls, starts = grpc_calls("create_channel"), grpc_starts("make_simple_grpc_retry_invoker")
    create_channel, make_invoker = calls.create_channel, starts.make_simple_grpc_retry_invoker

    def bounded_channel(*, interceptors: Sequence[Any] = (), **keys: Any) -> Any:
        return create_channel(interceptors=[*interceptors, Deadline()], **keys)

    def bounded_invoker() -> Any:
        made = make_invoker()
        gives_up = made.should_giveup

        def gives_up_now(error: Any) -> bool:
            late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            return not late and bool(gives_up(error))

        made.should_giveup = gives_up_now
        return made

    calls.create_channel, starts.make_simple_grpc_retry_invoker = bounded_channel, bounded_invoker


def look_every(seconds: float | None) -> None:
    """Have the SuperNode wait `seconds` before each look; None: as `looks.pause` says.

    It also waits for its app, in shorter steps, which stay as they are.
    """
    flower = loop("_push_messages")
    push, served = flower._push_messages, time.monotonic()

    def pushed(*arguments: Any, **keys: Any) -> Any:
        nonlocal served
        try:
            return push(*arguments, **keys)
        finally:
            served = time.monotonic()

    def sleep(wanted: float) -> None:
        between = looks.pause(time.monotonic() - served) if seconds is None else seconds
        time.sleep(between if wanted == looks.FIRST_SECONDS else min(wanted, between))

    ours = SimpleNamespace(**vars(time))
    ours.sleep = sleep
    flower.time, flower._push_messages = ours, pushed


def main() -> None:
    """Run Flower's SuperNode, with its own options."""
    try:
        seconds = read_seconds(LOOK_SECONDS, None, _LEAST_SECONDS, looks.FIRST_SECONDS)
        set_up_logs()
        release = demand_deployable()
    except FedSubError as error:
        sys.exit(f"fedsub-supernode: {error}")
    hide_memory()  # the node's key is in it, and a ClientApp's process may be the same user's
    if release == GRPC:  # over HTTP each has 30 s
        bound_calls()
    look_every(seconds)
    state_factory().InMemoryNodeState = AnsweringNodeState
    flower_supernode()
