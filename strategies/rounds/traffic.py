"""The traffic of a run: how many bytes went to and came from each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from sys import intern
from typing import Any

from fedsub_core.metrics import MetricRow
from fedsub_core.wire import exchange
from fedsub_core.wire.exchange import Content
from fedsub_core.wire.message_sizes import message_bytes


class Traffic:
    """Bytes by client and metric, until their rows are taken."""

    def __init__(self) -> None:
        self._bytes: dict[str, Counter[str]] = {}

    def add_message(self, client: str, what: str, content: Content) -> None:
        """Count a message: its payload (``<what>_sent``), and all of it (``<what>_flower``)."""
        size = len(exchange.payload_of(content))
        counter = self._bytes.setdefault(client, Counter())
        counter[intern(f"{what}_sent")] += size
        counter[intern(f"{what}_flower")] += message_bytes(content, size)

    def add_record(self, client: str, record: Mapping[str, Any]) -> None:
        """Count a record about a secure sum: the bytes of its texts, bytes and lists."""
        values = [v for own in record.values() for v in (own if isinstance(own, list) else [own])]
        size = sum(len(value) if isinstance(value, str | bytes) else 8 for value in values)
        self._bytes.setdefault(client, Counter())["bytes_secure_sent"] += size

    def rows(self, round: int) -> list[MetricRow]:
        """Return the bytes counted since the last call, as rows; start anew."""
        counted, self._bytes = self._bytes, {}
        return [
            MetricRow(round, client, None, metric, count)
            for client, by_metric in counted.items()
            for metric, count in by_metric.items()
        ]
