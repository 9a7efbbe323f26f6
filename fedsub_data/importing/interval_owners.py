"""Whose intervals are: by a column, by their file's name, or as it lies beside a recording."""

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.client_ids import client_id, nearest_person
from fedsub_data.importing.files import people_of
from fedsub_data.importing.interval_files import Interval

#: Endings of files of intervals.
_ENDINGS = (".csv", ".tsv", ".txt", ".json")


@dataclass(frozen=True)
class Recording:
    """A recording, as intervals are held against it.

    Parameters
    ----------
    person : client's id.
    file : index of the file, and its path.
    first, last : times, s.
    """

    person: str
    file: int
    path: Path
    first: float
    last: float


def asked_files(pattern: str) -> list[Path]:
    """Return the files that a path, a folder or a pattern means; [] where it means none."""
    path = Path(pattern)
    if path.is_file():
        return [path]
    found = path.rglob("*") if path.is_dir() else map(Path, glob.glob(pattern, recursive=True))
    return sorted(each for each in found if each.suffix.lower() in _ENDINGS and each.is_file())


def without_intervals(files: Sequence[Path], pattern: str) -> list[Path]:
    """Return the files of recordings, without those that hold intervals."""
    if not pattern:
        return list(files)
    own = {path.resolve() for path in asked_files(pattern)}
    return [path for path in files if path.resolve() not in own and (own or path.name != pattern)]


def interval_paths(
    pattern: str, recordings: Sequence[Recording]
) -> dict[Path, Sequence[Recording]]:
    """Return the files of intervals, each with the recordings that it may speak of.

    Raises DataError where there is no file, or one of several has nobody's name.
    """
    files = asked_files(pattern)
    if not files:
        return _beside(pattern, recordings)
    found: dict[Path, Sequence[Recording]] = {}
    for path in files:
        near = [_nearness(path, each) for each in recordings]
        best = max(near, default=(0, 0, False))
        if not any(best) and len(files) > 1:
            raise DataError(
                f"{path}: got a name with no person or recording in it, expected one of "
                f"{listed(dict.fromkeys(each.person for each in recordings), 6)}, as "
                f"{spelt('intervals')} means several files"
            )
        own = [each for each, how in zip(recordings, near, strict=True) if how == best]
        if best[0] and len({each.person for each in own}) > 1:
            raise DataError(
                f"{path}: got a name that is in those of {own[0].path} and {own[-1].path}, "
                "expected one person's. Add the person's name, or lay it beside the recording"
            )
        found[path] = own
    return found


def _nearness(path: Path, recording: Recording) -> tuple[int, int, bool]:
    """Return the length of a recording's or person's name in a file's name, and in its folder's.

    The last is whether both lie in one folder.
    """
    names = recording.person, *people_of([recording.path])
    in_name, in_folder = (
        max(len(name) if _belongs(text, name) else 0 for name in names)
        for text in (path.stem, path.absolute().parent.name)
    )
    return in_name, in_folder, path.absolute().parent == recording.path.absolute().parent


def _beside(pattern: str, recordings: Sequence[Recording]) -> dict[Path, Sequence[Recording]]:
    """Return the files of this name in the folders of recordings."""
    found: dict[Path, list[Recording]] = {}
    for recording in recordings:
        for folder in (recording.path, recording.path.parent):
            if (folder / pattern).is_file():
                found.setdefault(folder / pattern, []).append(recording)
                break
    if not found:
        raise DataError(
            f"intervals: got {pattern!r}, which is no file, and no name of a file beside a "
            "recording; expected one of both, a folder or a pattern"
        )
    return dict(found)


def _belongs(name: str, owner: str) -> bool:
    """Return whether a file's name holds another name, word for word."""
    own, held = (re.findall(r"[^\W_]+", text) for text in (owner, name))
    starts = range(len(held) - len(own) + 1)
    return bool(own) and any(held[i : i + len(own)] == own for i in starts)


def owners(interval: Interval, recordings: Sequence[Recording]) -> list[Recording]:
    """Return the recordings that an interval names, of some; all, where it names none.

    Raises DataError where it names recordings of several people by one name.
    """
    own = list(recordings)
    if interval.person:
        own = [each for each in own if each.person == client_id(interval.person)]
    if not interval.recording:
        return own
    named = [each for each in own if _is_called(each.path, interval.recording)]
    if len({each.file for each in named}) > 1:
        raise DataError(
            f"{interval.where}: got recording {interval.recording!r}, which {named[0].path} and "
            f"{named[1].path} are; expected one. Name the folder, too, or the person in a column"
        )
    return named or [each for each in own if each.person == client_id(interval.recording)]


def _is_called(path: Path, name: str) -> bool:
    """Return whether a file is called so: with its ending or not, perhaps with its folders."""
    *folders, last = re.split(r"[/\\]", name)
    parents = path.absolute().parts[:-1]
    own = people_of([path])[0]
    same = last in (path.name, own) or last.removesuffix(Path(last).suffix) == own
    return same and (not folders or list(parents[-len(folders) :]) == folders)


def unknown(intervals: Iterable[Interval], people: Sequence[str]) -> list[str]:
    """Return a sentence on names in intervals that nobody has; `intervals` have no owner."""
    names = dict.fromkeys(each.person or each.recording for each in intervals)
    shown = [f"{name!r}.{nearest_person(name, people)}".removesuffix(".") for name in names]
    if not shown:
        return []
    return [f"Intervals of nobody who is imported: {listed(shown, 5)}."]
