"""What a run found in its data, ``data.json``: how each person's samples were split, warnings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedsub_core.data.findings import SplitNote, split_warning, without_validation
from fedsub_core.files import write_whole

DATA_FILE = "data.json"


@dataclass(frozen=True)
class DataNotes:
    """What a run found in its data: by client how it was split, and what bends the results."""

    splits: Mapping[str, SplitNote] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def write_notes(folder: Path, notes: DataNotes) -> None:
    """Write the notes into a run's folder, whole or not at all."""
    text = json.dumps(asdict(notes), indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / DATA_FILE, text.encode())


def note_devices(folder: Path, said: Mapping[str, SplitNote], best_by: str) -> None:
    """Keep in a run's folder what devices say of how their own samples were divided.

    Of a device that is away for now stays what it said.
    """
    kept = read_notes(folder)
    splits = {**kept.splits, **said}
    lacking = without_validation(splits) if best_by == "validation" else ""
    notes = DataNotes(dict(sorted(splits.items())), tuple(filter(None, [lacking])))
    if splits and notes != kept:
        write_notes(folder, notes)


def forget_notes(folder: Path, client: str) -> None:
    """Leave nothing of a client in a run's notes: no text that may name it either.

    A simulation that goes on says anew what holds without it.
    """
    if (folder / DATA_FILE).is_file():
        kept = read_notes(folder)
        splits = {name: note for name, note in kept.splits.items() if name != client}
        warnings = tuple(text for text in kept.warnings if client not in text)
        write_notes(folder, DataNotes(splits, warnings))


def said_of(notes: DataNotes) -> list[str]:
    """Return in sentences what a reader of a run's numbers must know of its data."""
    drawn = split_warning([one.split for one in notes.splits.values()])
    return [*notes.warnings, *filter(None, [drawn])]


def read_notes(folder: Path) -> DataNotes:
    """Return a run's notes; empty where it has none."""
    try:
        kept = json.loads((folder / DATA_FILE).read_text("utf-8"))
        splits = {client: SplitNote(**note) for client, note in kept["splits"].items()}
        return DataNotes(splits, tuple(kept["warnings"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DataNotes()
