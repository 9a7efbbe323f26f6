"""Answers with messages that devices have not confirmed: a network may have lost them.

Flower counts a message as delivered once it has been read, whether its device gets it or not. A
device whose answer was lost looks for messages again, and would get none.
"""

import threading
from collections.abc import Callable
from typing import Any

#: How often an answer is given again: a device that can never read it must not get it for ever.
MOST_TIMES = 3


class Unconfirmed:
    """The last answer with a message to each node, until the node confirms that it has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By node: the answer, and how often it may be given again.
        self._answers: dict[int, tuple[Any, int]] = {}

    def answer(self, request: Any, pull: Callable[[], Any]) -> Any:
        """Return the answer to a `PullMessagesRequest`: the unconfirmed one, or a new one."""
        node = request.node.node_id
        with self._lock:
            answer, times = self._answers.pop(node, (None, MOST_TIMES + 1))
        answer = answer or pull()
        if answer.messages_list and times > 1:
            with self._lock:
                self._answers[node] = answer, times - 1
        return answer

    def confirm(self, request: Any) -> None:
        """Note a `ConfirmMessageReceivedRequest`; one of another message changes nothing."""
        with self._lock:
            answer, _ = self._answers.get(request.node.node_id, (None, 0))
            trees = answer.message_object_trees if answer else ()
            if request.message_object_id in {tree.object_id for tree in trees}:
                del self._answers[request.node.node_id]
