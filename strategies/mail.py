"""Mail between the server and its clients: written, read, counted, and refused where it is bad."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence

from flwr.app import Message, RecordDict

from fedsub_core import exchange
from fedsub_core.messages import Download, Upload
from fedsub_core.metrics import MetricRow
from fedsub_core.models import Model
from fedsub_core.wire.codec import decode_upload, encode_download
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows
from strategies.opening import Federation

log = logging.getLogger("fedsub")


class Mail:
    """What goes out to a federation's clients and comes back.

    Parameters
    ----------
    wire : how messages are written.
    """

    def __init__(self, wire: WireSettings) -> None:
        self.wire = wire
        #: What the server holds of each client's rows, where uploads are differences.
        self.memories: dict[str, Memory] = {}
        #: Messages refused so far, by client.
        self.refusals: Counter[str] = Counter()
        self._asked: list[tuple[Message, str]] = []
        self._bytes_down: dict[str, Counter[str]] = {}

    def write(
        self,
        kind: str,
        round: int,
        federation: Federation,
        clients: Sequence[str],
        downloads: Sequence[Download],
    ) -> list[Message]:
        """Return one message of `kind` per client, with a download of its own."""
        order = exchange.order(round, federation.scaling)
        self._asked = []
        for client, download in zip(clients, downloads, strict=True):
            memory = self.memories.get(client)
            payload = encode_download(download, client, round, self.wire.download, memory)
            content = RecordDict({exchange.PAYLOAD: exchange.pack(payload), exchange.ORDER: order})
            counts = self._bytes_down.setdefault(client, Counter())
            counts["bytes_down_sent"] += len(payload)
            counts["bytes_down_flower"] += exchange.message_bytes(content, len(payload))
            message = Message(content, federation.nodes[client], kind, group_id=str(round))
            self._asked.append((message, client))
        return [message for message, _ in self._asked]

    def read(self, round: int, replies: Iterable[Message]) -> Iterable[tuple[str, RecordDict]]:
        """Yield who answered what; error replies are refused."""
        # By message, not by node: an error reply of Flower's own names no node of ours.
        asked = {message.metadata.message_id: client for message, client in self._asked}
        for reply in replies:
            client = asked.get(reply.metadata.reply_to_message_id, "?")
            if reply.has_error():
                self.refuse(client, round, f"error {reply.error.code}: {reply.error.reason}")
            else:
                yield client, reply.content

    def open(
        self, client: str, content: RecordDict, round: int, model: Model, prototype_size: int
    ) -> tuple[Upload, Envelope, int]:
        """Decode an upload; return it, what it was checked against, and its payload's bytes.

        Raises
        ------
        MessageRefused, ValueError
            If it is not one of ours or does not fit.
        """
        wire, memory = self.wire, self.memories.get(client)
        envelope = Envelope(client, round, model, prototype_size, memory, wire.limit, wire.largest)
        payload = exchange.unpack(content)
        return decode_upload(payload, envelope), envelope, len(payload)

    def accept(self, client: str, upload: Upload, round: int, model: Model) -> None:
        """Remember the rows of an upload that passed every check."""
        if self.wire.upload.delta:
            memory = self.memories.setdefault(client, Memory.empty(model))
            if upload.reference == 0:
                memory.forget()
            remember_rows(memory, upload.layers, round)

    def refuse(self, client: str, round: int, why: object) -> None:
        """Count and log a message that is not used."""
        self.refusals[client] += 1
        log.warning("round %d, client %s: refused: %s", round, client, why)

    def collect_bytes_down(self, round: int) -> list[MetricRow]:
        """Return what was sent since the last call, by client, and start counting anew."""
        rows = [
            MetricRow(round, client, None, metric, count)
            for client, counts in self._bytes_down.items()
            for metric, count in counts.items()
        ]
        self._bytes_down = {}
        return rows
