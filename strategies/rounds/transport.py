"""Transport between the server and its clients: messages written, sent, read, counted, refused."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub_core.errors import MessageRefused, NumbersRefused, cut
from fedsub_core.metrics import MetricRow
from fedsub_core.secure.messages import SECURE
from fedsub_core.wire import exchange
from fedsub_core.wire.bundle_tensors import encode_tensors
from fedsub_core.wire.bundles import Bundle, Declaration
from fedsub_core.wire.codec import Address, compose_download, decode_upload
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.exchange import Content, Instructions
from fedsub_core.wire.in_process_message import InProcessMessage, content_of
from fedsub_core.wire.lazy_message import Tensors
from fedsub_core.wire.leaving import LEAVE
from fedsub_core.wire.references import Reference
from strategies.rounds.delivery import Delivery
from strategies.rounds.link import Link
from strategies.rounds.round import Round
from strategies.rounds.traffic import Traffic

log = logging.getLogger("fedsub")

#: Of a message beside which nothing is sent.
NOTHING_BESIDE: Mapping[str, ConfigRecord] = {}


class Transport:
    """The transport of messages to a federation's clients, and of their replies.

    Parameters
    ----------
    wire : how messages are written.
    quorum : share of a round's clients without whose usable answers it is of no use.
    """

    def __init__(self, wire: WireSettings, quorum: float = 0.0) -> None:
        self.wire = wire
        #: What the server holds of each client's uploads, where those are differences.
        self.references: dict[str, Reference] = {}
        self.delivery = Delivery(quorum=quorum)
        #: Messages refused so far, by client.
        self.refusals: Counter[str] = Counter()
        #: By client, the round of its last upload that was used, and of its last refusal and why.
        self.usable: dict[str, int] = {}
        self.refused: dict[str, tuple[int, str]] = {}
        #: Who was written to last.
        self.asked: tuple[str, ...] = ()
        #: Clients that said that their person leaves.
        self.left: set[str] = set()
        self._refused_now: Counter[str] = Counter()
        self.traffic = Traffic()

    def drop_misfits(self, round: Round) -> None:
        """Send whole tensors to who holds another part of the model than it did before."""
        for client, reference in list(self.references.items()):
            sends = round.travels(client)[0].items()
            expected = {name: d.shape for name, d in sends if d.floats and not d.exact}
            if {name: t.shape for name, t in reference.tensors.items()} != expected:
                del self.references[client]

    def write(
        self,
        kind: str,
        round: Round,
        instructions: Mapping[str, Instructions],
        bundles: Sequence[Bundle],
        nodes: Mapping[str, int],
        timeout: float,
        link: Link | None = None,
        beside: Mapping[str, ConfigRecord] = NOTHING_BESIDE,
    ) -> Iterator[Message]:
        """Yield one message of `kind` per client, with a bundle of its own.

        Each is written when it is asked for: all of a large federation's are more than fit.

        Parameters
        ----------
        round : which the messages are of.
        instructions : of every client that is written to, in the order of `bundles`.
        beside : the plan of a secure sum, by client.
        link : that they go by: whether they come by ascending nodes instead, and by reference.
        """
        bundles = round.as_received(list(instructions), bundles)
        # Many clients may get one and the same bundle: its tensors are encoded once.
        encoded: dict[int, Tensors] = {}
        many = Counter(map(id, bundles))
        records = {id(each): each.record() for each in set(instructions.values())}
        written = list(zip(instructions.items(), bundles, strict=True))
        if link is not None and link.stacked:
            written.sort(key=lambda one: nodes[one[0][0]])
        for (client, instruction), bundle in written:
            reference, receives = self.references.get(client), round.travels(client)[1]
            shared = None
            if reference is None or not self.wire.download.delta:
                shared = encoded.get(id(bundle))
                if shared is None:
                    shared = encode_tensors(bundle, receives, self.wire.download)
                if many[id(bundle)] > 1:
                    encoded[id(bundle)] = shared
            payload = compose_download(
                bundle,
                Address(client, round.number),
                receives,
                self.wire.download,
                reference,
                shared,
            )
            content = {exchange.PAYLOAD: payload, exchange.TURN: records[id(instruction)]}
            if client in beside:
                content[SECURE] = beside[client]
            # Beyond the deadline: a reply that comes late is to be seen and counted.
            ttl = self.delivery.overdue.lasts(timeout)
            envelope: dict[str, Any] = {"ttl": ttl, "group_id": str(round.number)}
            if link is not None and link.by_reference:
                yield InProcessMessage(content, nodes[client], kind, **envelope)
            else:
                yield Message(exchange.write(content), nodes[client], kind, **envelope)

    def deliver(
        self,
        link: Link,
        messages: Iterable[Message],
        nodes: Mapping[str, int],
        timeout: float,
        sends: Declaration,
        most: int = 0,
        enough: int = 0,
    ) -> Iterator[Message]:
        """Send messages, count their bytes; yield the replies that come in time.

        `most`, `enough`: as :meth:`Delivery.exchange`; `sends` bounds an answer's size.

        Raises ValueError if a message is to a node that is no client's, or two are to one client.
        """
        link.most_bytes = Envelope("", 0, sends, limit=self.wire.limit).most_bytes
        asked = self._addressed(messages, {node: client for client, node in nodes.items()})
        return self.delivery.exchange(link, asked, timeout, nodes, most, enough)

    def _addressed(
        self, messages: Iterable[Message], clients: Mapping[int, str]
    ) -> Iterator[tuple[str, Message]]:
        """Yield each message with whom it is to, by its node; count it."""
        asked = dict[str, None]()
        for message in messages:
            node = message.metadata.dst_node_id
            if node not in clients:
                raise ValueError(f"a message to node {node}: expected one of {sorted(clients)}")
            client = clients[node]
            if client in asked:
                raise ValueError(f"two messages to one client: {client!r}")
            asked[client] = None
            # What evaluation costs is shown apart from training.
            training = message.metadata.message_type == MessageType.TRAIN
            what = "bytes_down" if training else "bytes_evaluation"
            self.traffic.add_message(client, what, content_of(message))
            yield client, message
        self.asked = tuple(asked)

    def read(self, round: int, replies: Iterable[Message]) -> Iterator[tuple[str, Content, int]]:
        """Yield clients, the contents of their replies, and the round that each is of.

        Error replies are refused.
        """
        for reply in replies:
            client = self.delivery.client_of(reply)
            late = self.delivery.overdue.answered(reply)
            if reply.has_error():
                # A device that lost its memory cannot read differences: start anew with it.
                self.references.pop(client, None)
                self.refuse(client, round, f"error {reply.error.code}: {cut(reply.error.reason)}")
                continue
            content = content_of(reply)
            if LEAVE in content:
                self.left.add(client)
                continue
            try:
                if isinstance(content, RecordDict):  # it came from elsewhere
                    exchange.require_ours(content, client, round)
            except MessageRefused as error:
                self.refuse(client, round, error)
            else:
                yield client, content, round if late is None else late.round

    def decode(self, client: str, content: Content, round: Round) -> Bundle:
        """Decode an upload of a round.

        Raises MessageRefused or ValueError if it is not one of ours or is not as declared.
        """
        wire, sends, reference = self.wire, round.uploaded_by(client), self.references.get(client)
        envelope = Envelope(client, round.number, sends, reference, wire.limit, wire.largest)
        return decode_upload(exchange.payload_of(content), envelope)

    def accept(
        self, client: str, upload: Bundle, content: Content, round: Round, late: bool = False
    ) -> None:
        """Count an upload that passed every check, and remember its numbers."""
        self.delivery.note_usable(client, late)
        self.usable[client] = round.number
        self.traffic.add_message(client, "bytes_up", content)
        if self.wire.upload.delta:
            if client not in self.references:
                self.references[client] = Reference.empty(round.travels(client)[0])
            self.references[client].remember(upload, round.number)

    def refuse(self, client: str, round: int, why: object) -> None:
        """Count a message that is not used, and log it.

        Where its numbers are none, the round's log says it of all at once
        (:func:`strategies.rounds.uploads.warn_of_divergence`).
        """
        self.refusals[client] += 1
        self._refused_now[client] += 1
        self.refused[client] = round, cut(why)
        if not isinstance(why, NumbersRefused):
            log.warning("round %d, client %s: refused: %s", round, client, why)

    def forget_silent(self) -> None:
        """Send whole tensors next time to those who were silent: what they hold is unknown."""
        for client in self.delivery.silent:
            self.references.pop(client, None)

    def collect(self, round: int) -> list[MetricRow]:
        """Return rows of bytes and failures since the last call, by client; start anew."""
        counts = self.delivery.counts() | {"refused_replies": self._refused_now}
        rows = [
            MetricRow(round, client, None, metric, count)
            for metric, by_client in counts.items()
            for client, count in sorted(by_client.items())
        ]
        self._refused_now = Counter()
        return rows + self.traffic.rows(round)
