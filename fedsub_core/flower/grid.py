"""Flower's Grid over HTTP: which replies are there, asked for all messages at once.

Flower's own takes the replies to a list of messages, and one that cannot be read costs the whole
list. Asked for one message at a time it is asked as often as there are messages without a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from flwr.app import Message
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid


class _Given:
    """A client of the SuperLink to which one answer has been given before it asks."""

    def __init__(self, client: Any, answer: PullAppMessagesResponse) -> None:
        self._client, self._answer = client, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        """Return the answer."""
        return self._answer


def asks_at_once(grid: Grid) -> bool:
    """Whether a grid is Flower's over HTTP, which can be asked for all messages at once."""
    kinds = {kind.__name__ for kind in type(grid).__mro__}
    return "HttpGrid" in kinds and hasattr(grid, "_runtime_client") and hasattr(grid, "_client")


def announced(grid: Any, ids: Sequence[str]) -> dict[str, PullAppMessagesResponse]:
    """Return the announcements of replies to these messages, by the id of the message.

    The SuperLink now counts them as taken: each must be read, by :func:`reply_of`.
    """
    came = grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=ids))
    pairs = zip(came.messages_list, came.message_object_trees, strict=True)
    return {
        one.metadata.reply_to_message_id: PullAppMessagesResponse(
            messages_list=[one], message_object_trees=[tree]
        )
        for one, tree in pairs
    }


def reply_of(grid: Any, identity: str, answer: PullAppMessagesResponse) -> list[Message]:
    """Return the reply of an announcement, fetched as Flower does: none, or one."""
    one = copy(grid)
    one._client = _Given(grid._runtime_client, answer)
    return list(one.pull_messages([identity]))
