"""Mail between the server and its clients: written, read, counted, and refused where it is bad."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedsub_core.metrics import MetricRow
from fedsub_core.models.chain import Model
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Download, Upload, papers_bytes, union_bytes
from fedsub_core.wire.codec import decode_upload, encode_download
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows
from strategies.rounds.delivery import Delivery
from strategies.rounds.handshake import Federation

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
        #: The run's name, by which a device tells this run from another; may be empty.
        self.run = ""
        self.delivery = Delivery()
        #: Messages refused so far, by client.
        self.refusals: Counter[str] = Counter()
        self._asked: list[tuple[str, Message]] = []
        self._refused_now: Counter[str] = Counter()
        self._bytes: dict[str, Counter[str]] = {}

    def write(
        self,
        kind: str,
        round: int,
        federation: Federation,
        clients: Sequence[str],
        downloads: Sequence[Download],
        timeout: float,
        also_evaluated: Collection[str] = (),
    ) -> list[Message]:
        """Return one message of `kind` per client, with a download of its own.

        Clients in `also_evaluated` shall evaluate their model where they trained it.
        """
        orders = {
            also: exchange.order(round, federation.scaling, self.run, also)
            for also in (False, True)
        }
        self._asked = []
        for client, download in zip(clients, downloads, strict=True):
            memory = self.memories.get(client)
            payload = encode_download(download, client, round, self.wire.download, memory)
            order = orders[client in also_evaluated]
            content = RecordDict({exchange.PAYLOAD: exchange.pack(payload), exchange.ORDER: order})
            counts = self._bytes.setdefault(client, Counter())
            counts["bytes_down_sent"] += len(payload)
            counts["bytes_down_flower"] += exchange.message_bytes(content, len(payload))
            # Twice the deadline: a reply that comes late is to be seen and counted.
            ttl = 2 * timeout
            node = federation.nodes[client]
            message = Message(content, node, kind, ttl=ttl, group_id=str(round))
            self._asked.append((client, message))
        return [message for _, message in self._asked]

    @property
    def asked(self) -> int:
        """How many clients were written to last."""
        return len(self._asked)

    def deliver(self, grid: Grid, federation: Federation, timeout: float) -> Iterator[Message]:
        """Send what was written last; yield the replies that come in time."""
        return self.delivery.exchange(grid, self._asked, timeout, federation.nodes)

    def read(self, round: int, replies: Iterable[Message]) -> Iterator[tuple[str, RecordDict]]:
        """Yield who answered what; error replies are refused."""
        for reply in replies:
            client = self.delivery.client_of(reply)
            if reply.has_error():
                # A device that lost its memory cannot read differences: start anew with it.
                self.memories.pop(client, None)
                self.refuse(client, round, f"error {reply.error.code}: {reply.error.reason}")
            else:
                yield client, reply.content

    def open(
        self, client: str, content: RecordDict, round: int, model: Model, prototype_size: int
    ) -> tuple[Upload, Envelope]:
        """Decode an upload; return it, and what it was checked against.

        Raises
        ------
        MessageRefused, ValueError
            If it is not one of ours or does not fit.
        """
        wire, memory = self.wire, self.memories.get(client)
        envelope = Envelope(client, round, model, prototype_size, memory, wire.limit, wire.largest)
        return decode_upload(exchange.unpack(content), envelope), envelope

    def accept(
        self, client: str, upload: Upload, content: RecordDict, round: int, model: Model
    ) -> None:
        """Count an upload that passed every check, and remember its rows."""
        sent = len(exchange.unpack(content))
        for metric, count in (
            ("bytes_up_sent", sent),
            ("bytes_up_flower", exchange.message_bytes(content, sent)),
            ("bytes_up_papers", papers_bytes(upload)),
            ("bytes_up_union", union_bytes(upload)),
            ("bytes_full_model", model.full_bytes),
        ):
            self._bytes.setdefault(client, Counter())[metric] += count
        if self.wire.upload.delta:
            memory = self.memories.setdefault(client, Memory.empty(model))
            if upload.reference == 0:
                memory.forget()
            remember_rows(memory, upload.layers, round)

    def refuse(self, client: str, round: int, why: object) -> None:
        """Count and log a message that is not used."""
        self.refusals[client] += 1
        self._refused_now[client] += 1
        log.warning("round %d, client %s: refused: %s", round, client, why)

    def collect(self, round: int) -> list[MetricRow]:
        """Return what was sent and what failed since the last call, by client; start anew."""
        counts = self.delivery.counts() | {"refused_replies": self._refused_now}
        rows = [
            MetricRow(round, client, None, metric, count)
            for metric, by_client in counts.items()
            for client, count in sorted(by_client.items())
        ]
        rows += [
            MetricRow(round, client, None, metric, count)
            for client, by_metric in self._bytes.items()
            for metric, count in by_metric.items()
        ]
        self._bytes, self._refused_now = {}, Counter()
        return rows
