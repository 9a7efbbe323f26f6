"""What a run found in its data, ``data.json``: how each person's samples were split, warnings.

And who took part with an older release than the server's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedsub_core.data.findings import (
    SplitNote,
    gap_warning,
    sides_warning,
    split_warning,
    without_validation,
)
from fedsub_core.errors import cut, listed
from fedsub_core.files import write_whole
from fedsub_core.wire.handshake import Introduction
from fedsub_server.ending import ended_in_words
from fedsub_server.tuned import tuned_in_words

DATA_FILE = "data.json"
#: Clients that are named at most in a sentence; the file names all.
NAMED = 10


@dataclass(frozen=True)
class DataNotes:
    """Notes on a run's data.

    Parameters
    ----------
    splits : by client how it was split.
    warnings : what bends the results.
    behind : the release of each client whose device runs an older one than the server.
    chosen : what was chosen on validation data, values and last rounds, in words; these have files
        of their own.
    """

    splits: Mapping[str, SplitNote] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    behind: Mapping[str, str] = field(default_factory=dict)
    chosen: str = ""


def write_notes(folder: Path, notes: DataNotes) -> None:
    """Write the notes into a run's folder, whole or not at all."""
    kept = {key: value for key, value in asdict(notes).items() if key != "chosen"}
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / DATA_FILE, text.encode())


def note_devices(
    folder: Path,
    introductions: Mapping[str, Introduction],
    best_by: str,
    behind: Mapping[str, str],
    warnings: Sequence[str] = (),
) -> None:
    """Keep devices' notes on their splits in a run's folder, and who is `behind`.

    The notes of a device that is away stay. So do `warnings`, those of other methods, too.
    """
    kept = read_notes(folder)
    validated = best_by == "validation"
    before = _of_splits(kept.splits, validated)
    others = [text for text in kept.warnings if text not in before]
    new = {client: own.split for client, own in introductions.items() if own.split is not None}
    splits = {**kept.splits, **new}
    away = {c: release for c, release in kept.behind.items() if c not in introductions}
    notes = DataNotes(
        dict(sorted(splits.items())),
        tuple(dict.fromkeys([*_of_splits(splits, validated), *others, *warnings])),
        dict(sorted({**away, **behind}.items())),
    )
    if notes not in (kept, DataNotes()):
        write_notes(folder, notes)


def _of_splits(splits: Mapping[str, SplitNote], validated: bool) -> list[str]:
    """Return warnings on everybody's splits together."""
    parts = {client: note.split for client, note in splits.items()}
    lacking = without_validation(splits) if validated else ""
    return [*filter(None, [lacking, gap_warning(parts), sides_warning(parts)])]


def forget_notes(folder: Path, client: str) -> None:
    """Remove a client from a run's notes, and texts that may name it.

    A simulation that goes on says anew what holds without it.
    """
    if (folder / DATA_FILE).is_file():
        kept = read_notes(folder)
        splits = {name: note for name, note in kept.splits.items() if name != client}
        before, now = (_of_splits(some, False) for some in (kept.splits, splits))
        others = [text for text in kept.warnings if client not in text and text not in before]
        warnings = (*now, *others)
        behind = {name: release for name, release in kept.behind.items() if name != client}
        write_notes(folder, DataNotes(splits, warnings, behind))


def data_in_words(notes: DataNotes) -> list[str]:
    """Return sentences on a run's data that its numbers must not go without."""
    drawn = split_warning([one.split for one in notes.splits.values()])
    return [*notes.warnings, *filter(None, [drawn]), *releases_in_words(notes)]


def releases_in_words(notes: DataNotes) -> list[str]:
    """Return a sentence on devices with an older release than the server's; [] without any."""
    if not (releases := notes.behind):
        return []
    each = listed((f"{client} ({cut(old)})" for client, old in releases.items()), NAMED)
    return [f"Devices behind the server's release: {each}. Upgrade them."]


def read_notes(folder: Path) -> DataNotes:
    """Return a run's notes; empty where it has none."""
    try:
        kept = json.loads((folder / DATA_FILE).read_text("utf-8"))
        splits = {client: SplitNote(**note) for client, note in kept["splits"].items()}
        behind = {str(client): str(release) for client, release in kept.get("behind", {}).items()}
        said = " ".join(filter(None, (tuned_in_words(folder), ended_in_words(folder))))
        return DataNotes(splits, tuple(kept["warnings"]), behind, said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DataNotes()
