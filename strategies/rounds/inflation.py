"""Bounds on what Flower makes of a reply: an array of a few bytes may say that it holds terabytes.

Flower's Array lists its chunks by number, and copies each as often as it is listed. Nothing keeps a
device from listing one a million times, nor many arrays from sharing it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flwr.app import Array

from fedsub_core.flower.messages import chunks_of, make_arrays_by


class _Budget(threading.local):
    """The bytes that a thread may make: no more than came, or `most`; None: no bound."""

    def __init__(self) -> None:
        self.start(None)  # in each thread

    def start(self, most: int | None) -> None:
        self.most, self.made = most, 0
        self.came: dict[str, int] = {}

    def spend(self, chunks: Mapping[str, int], total: int) -> None:
        self.came |= chunks
        self.made += total
        if self.most is not None and self.made > max(self.most, sum(self.came.values())):
            came = sum(self.came.values())
            raise ValueError(
                f"arrays: got {self.made} bytes made of {came}, expected {self.most} at most"
            )


_budget = _Budget()


class BoundedArray:
    """Stands for Flower's Array where objects are inflated."""

    @staticmethod
    def inflate(object_content: bytes, children: dict[str, Any] | None = None) -> Array:
        """Return the array.

        Raises ValueError if its bytes are more than the thread's budget.
        """
        sizes = {name: len(chunk.data) for name, chunk in (children or {}).items()}
        _budget.spend(sizes, sum(sizes[name] for name in chunks_of(object_content)))
        return Array.inflate(object_content, children)


make_arrays_by(BoundedArray)


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """Let this thread make no more of arrays than what came for them, or `most` bytes."""
    _budget.start(most)
    try:
        yield
    finally:
        _budget.start(None)
