"""What a run found in its data, ``data.json``: how each person's samples were split, warnings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedsub_core.files import write_whole

DATA_FILE = "data.json"


@dataclass(frozen=True)
class SplitNote:
    """How one person's samples were divided.

    Parameters
    ----------
    split : in words, with the gap at cuts in time.
    training, testing, neither : samples of each part; `neither` lie in a gap, repeat a tested
        sample, or were left out as the run asked for.
    repeated : samples that are the same as an earlier one.
    validation : samples held back to choose the best round by.
    """

    split: str
    training: int
    testing: int
    neither: int
    repeated: int
    validation: int = 0


@dataclass(frozen=True)
class DataNotes:
    """What a run found in its data: by client how it was split, and what bends the results."""

    splits: Mapping[str, SplitNote] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def write_notes(folder: Path, notes: DataNotes) -> None:
    """Write the notes into a run's folder, whole or not at all."""
    text = json.dumps(asdict(notes), indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / DATA_FILE, text.encode())


def read_notes(folder: Path) -> DataNotes:
    """Return a run's notes; empty where it has none: data of a deployment stay on its devices."""
    try:
        kept = json.loads((folder / DATA_FILE).read_text("utf-8"))
        splits = {client: SplitNote(**note) for client, note in kept["splits"].items()}
        return DataNotes(splits, tuple(kept["warnings"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DataNotes()
