"""The built-in smartwatch data as a folder of their own, for devices and for partitions."""

from pathlib import Path

from fedsub_core.data.watch import watch_federation
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return the federation of ``data = "watch"``; it comes along, without a `source`."""
    federation = watch_federation()
    counts = Counts()
    counts.add("people", len(federation.clients))
    counts.add("windows kept", sum(len(data.y) for data in federation.clients.values()))
    return Prepared(federation, counts)
