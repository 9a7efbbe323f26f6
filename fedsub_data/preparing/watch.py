"""The built-in smartwatch data as a folder of their own, for devices and for partitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedsub_core.data.watch import watch_federation
from fedsub_data.preparing.preparation import Counts, Prepared, Progress


@dataclass(frozen=True)
class Options:
    """There are none: the windows are those of ``fedsub run``."""


def prepare(source: Path, options: Options, workers: int, progress: Progress) -> Prepared:
    """Return what ``data = "watch"`` trains on; `source` is not needed, pip installed the file."""
    federation = watch_federation()
    counts = Counts()
    counts.add("people", len(federation.clients))
    counts.add("windows kept", sum(len(data.y) for data in federation.clients.values()))
    return Prepared(federation, counts)
