"""Answers to devices that a network may have lost: they are given again.

Flower counts a message as delivered once it has been read, whether its device gets it or not. A
device whose answer was lost looks for messages again, and would get none. If the answer to a reply
or to one of its objects is lost, the device sends that again; Flower would refuse it, as the
server may have read the reply meanwhile and has the object.
"""

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

#: How often a message is given again: a device that can never read it must not get it for ever.
MOST_TIMES = 3
#: For how long an answer is given again, seconds; Flower waits for a reply's objects for 180.
SECONDS = 120.0
#: Answers to pushes of one node at most: it pushes a few objects at a time.
MOST_PUSHES = 16


@dataclass
class _Answers:
    """The last answers to one node, whose calls wait for each other.

    Parameters
    ----------
    pulled : the answer with a message that is not confirmed, and how often it may be given again.
    since : when it was given first, s.
    pushed : by what was pushed: the answer, and when it was given, s.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    pulled: Any = None
    times: int = 0
    since: float = 0.0
    pushed: dict[bytes, tuple[Any, float]] = field(default_factory=dict)


class LostAnswers:
    """The last answers to each node: with a message until it has that, and to what it pushes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._nodes: defaultdict[int, _Answers] = defaultdict(_Answers)

    def _of(self, request: Any) -> _Answers:
        with self._lock:
            return self._nodes[request.node.node_id]

    def pull(self, request: Any, pull: Callable[[], Any]) -> Any:
        """Return the answer to a `PullMessagesRequest`: the unconfirmed one, or a new one."""
        own = self._of(request)
        with own.lock:
            if own.pulled and own.times and self._clock() - own.since <= SECONDS:
                own.times -= 1
                return own.pulled
            answer = pull()
            own.pulled = answer if answer.messages_list else None
            own.times, own.since = MOST_TIMES, self._clock()
            return answer

    def confirm(self, request: Any) -> None:
        """Note a `ConfirmMessageReceivedRequest`; one of another message changes nothing."""
        self._forget(self._of(request), [request.message_object_id])

    def push(self, request: Any, push: Callable[[], Any]) -> Any:
        """Return the answer to a `PushMessagesRequest`: that to the same reply, or a new one."""
        own, roots = self._of(request), [tree.object_id for tree in request.message_object_trees]
        self._forget(own, [one.metadata.reply_to_message_id for one in request.messages_list])
        return self._pushed(own, roots, push, lambda answer: answer.objects_to_push)

    def push_object(self, request: Any, push: Callable[[], Any]) -> Any:
        """Return the answer to a `PushObjectRequest`: that to the same object, or a new one."""
        names = [request.session_id, request.object_id]
        return self._pushed(self._of(request), names, push, lambda answer: answer.stored)

    def _forget(self, own: _Answers, messages: list[str]) -> None:
        """Give none of these messages again."""
        with own.lock:
            if own.pulled and own.pulled.message_object_trees[0].object_id in messages:
                own.pulled = None

    def _pushed(
        self,
        own: _Answers,
        names: Iterable[str],
        push: Callable[[], Any],
        was_taken: Callable[[Any], Any],
    ) -> Any:
        # Of whatever length a device makes its names.
        key = hashlib.sha256("\n".join(names).encode()).digest()
        with own.lock:
            now = self._clock()
            own.pushed = {k: one for k, one in own.pushed.items() if now - one[1] <= SECONDS}
            if key in own.pushed:
                return own.pushed[key][0]
            answer = push()
            if was_taken(answer):
                own.pushed[key] = answer, now
                for oldest in list(own.pushed)[:-MOST_PUSHES]:
                    del own.pushed[oldest]
            return answer
