"""Answers to devices that a network may have lost: they are given again.

Flower counts a message as delivered once it has been read, whether its device gets it or not. A
device whose answer was lost looks for messages again, and would get none. If the answer to a reply
is lost, the device sends the reply again; the server may have read it meanwhile, and Flower would
refuse it, and wait for its objects for ever.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

#: How often a message is given again: a device that can never read it must not get it for ever.
MOST_TIMES = 3
#: For how long the answer to a reply is given again, seconds; Flower waits for its objects for 180.
SECONDS = 120.0


class LostAnswers:
    """The last answers to each node: with a message until it confirms that, and to its reply."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = threading.Lock(), clock
        #: By node: the answer with a message, and how often it may be given again.
        self._pulled: dict[int, tuple[Any, int]] = {}
        #: By node: objects at the root of the reply, the answer to it, and when it was given.
        self._pushed: dict[int, tuple[list[str], Any, float]] = {}

    def pull(self, request: Any, pull: Callable[[], Any]) -> Any:
        """Return the answer to a `PullMessagesRequest`: the unconfirmed one, or a new one."""
        node = request.node.node_id
        with self._lock:
            answer, times = self._pulled.pop(node, (None, MOST_TIMES + 1))
        answer = answer or pull()
        if answer.messages_list and times > 1:
            with self._lock:
                self._pulled[node] = answer, times - 1
        return answer

    def confirm(self, request: Any) -> None:
        """Note a `ConfirmMessageReceivedRequest`; one of another message changes nothing."""
        with self._lock:
            answer, _ = self._pulled.get(request.node.node_id, (None, 0))
            if answer and request.message_object_id in _roots(answer):
                del self._pulled[request.node.node_id]

    def push(self, request: Any, push: Callable[[], Any]) -> Any:
        """Return the answer to a `PushMessagesRequest`: that to the same reply, or a new one."""
        node, roots = request.node.node_id, _roots(request)
        with self._lock:
            before, answer, since = self._pushed.get(node, ([], None, 0.0))
        if before != roots or self._clock() - since > SECONDS:
            answer = push()
            with self._lock:
                self._pushed[node] = roots, answer, self._clock()
        return answer


def _roots(message: Any) -> list[str]:
    return [tree.object_id for tree in message.message_object_trees]
