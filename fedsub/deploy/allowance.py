"""What a device may push to the SuperLink: bounds of a reply, and of objects as time goes by."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import grpc

#: Objects of one reply; a node may announce as many again only so fast, a second.
MOST_OBJECTS, OBJECTS_A_SECOND = 1000, 10.0
#: Bytes of a reply without its objects: an error, of which many are read at once.
MOST_REPLY_BYTES = 2**23


def count_objects(trees: Iterable[Any], most: int) -> int:
    """Return the number of objects in trees of them; at `most` + 1 it stops counting."""
    found, todo = 0, list(trees)
    while todo and found <= most:
        found += 1
        todo.extend(todo.pop().children)
    return found


class Allowance:
    """How many objects each node may still announce; it grows with time up to MOST_OBJECTS."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._left: dict[int, tuple[float, float]] = {}

    def spend(self, node: int, objects: int) -> bool:
        """Return whether a node may announce so many now; if so they are taken off."""
        now = self._clock()
        with self._lock:
            since, left = self._left.get(node, (now, float(MOST_OBJECTS)))
            left = min(left + (now - since) * OBJECTS_A_SECOND, MOST_OBJECTS) - objects
            allowed = left >= 0
            self._left[node] = now, left if allowed else left + objects
        return allowed


def why_refused(request: Any, allowance: Allowance) -> tuple[grpc.StatusCode, str] | None:
    """Return why what a node pushes is refused, as gRPC says it; None if it is not.

    It is refused as another node's reply, as one of too many bytes or objects, or of more than may
    come now; what may come grows less only by what is not refused.
    """
    objects = count_objects(request.message_object_trees, MOST_OBJECTS)
    node = request.node.node_id
    for source in {message.metadata.src_node_id for message in request.messages_list} - {node}:
        said = f"node {node}: got a message from node {source}, expected its own"
        return grpc.StatusCode.PERMISSION_DENIED, said
    if any(message.ByteSize() > MOST_REPLY_BYTES for message in request.messages_list):
        said = f"node {node}: got a message of over {MOST_REPLY_BYTES} bytes, expected fewer"
        return grpc.StatusCode.INVALID_ARGUMENT, said
    if objects > MOST_OBJECTS:
        said = f"node {node}: got a message of over {MOST_OBJECTS} objects, expected fewer"
        return grpc.StatusCode.INVALID_ARGUMENT, said
    if not allowance.spend(node, objects):
        said = f"node {node}: announces more than {OBJECTS_A_SECOND:g} objects a second"
        return grpc.StatusCode.RESOURCE_EXHAUSTED, said
    return None
