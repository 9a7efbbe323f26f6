"""A message between two ends in one process, which hand over what it carries as it is.

Tensors go by reference, and none of Flower's records are made. The message is Flower's all the
same: whoever looks at its content sees what would have been sent, and from then on that is what
arrives.
"""

from __future__ import annotations

from typing import Any, cast

from flwr.app import Message, RecordDict

from fedsub_core.wire import exchange
from fedsub_core.wire.exchange import Content

_CONTENT = cast(property, vars(Message)["content"])


class InProcessMessage(Message):
    """A message whose content is written when somebody looks at it.

    Parameters
    ----------
    carried : what it carries; see :data:`fedsub_core.wire.exchange.Content`.
    args, options : Flower's, behind the content.
    """

    def __init__(self, carried: Content, *args: Any, **options: Any) -> None:
        super().__init__(RecordDict(), *args, **options)
        self.__dict__["_carried"] = carried

    @property
    def carried(self) -> Content | None:
        """What it carries; None once somebody looked at its content or set it."""
        found: Content | None = self.__dict__["_carried"]
        return found

    @property
    def content(self) -> RecordDict:
        """What it carries, written."""
        if self.carried is not None:
            self.content = exchange.write(self.carried)
        return super().content

    @content.setter
    def content(self, value: RecordDict) -> None:
        self.__dict__["_carried"] = None
        _CONTENT.__set__(self, value)


def content_of(message: Message) -> Content:
    """Return the content of a message, not written if it need not be."""
    carried = message.carried if isinstance(message, InProcessMessage) else None
    return message.content if carried is None else carried


def answer(content: Content, asked: Message) -> Message:
    """Return the answer to a message: by reference if that came so."""
    if isinstance(asked, InProcessMessage) and asked.carried is not None:
        return InProcessMessage(content, reply_to=asked)
    return Message(exchange.write(content), reply_to=asked)
