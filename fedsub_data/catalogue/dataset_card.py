"""A data set's card: source, licence, files, signals, classes and windowing, checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fedsub_data.catalogue.strict_tables import refused_key

ACCESS = ("open", "credentialed", "installed")
# Keys of [source] that only one kind of access has, and always.
_BELONGS = {"apply": "credentialed"} | dict.fromkeys(
    ("package", "version", "file", "sha256", "bytes"), "installed"
)


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and on which terms.

    Parameters
    ----------
    page, licence, terms, citation : str
        The official page; the licence's name; what one agrees to, in words; what to cite.
    access : str
        ``open`` (can be fetched), ``credentialed`` (its owner grants access) or ``installed``
        (comes with a Python package).
    apply : str or None
        Where to ask for access; credentialed only.
    package, version, file, sha256, bytes : str, int or None
        The Python package, and its file; installed only.
    """

    page: str
    licence: str
    terms: str
    citation: str
    access: str
    apply: str | None = None
    package: str | None = None
    version: str | None = None
    file: str | None = None
    sha256: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class OfficialFile:
    """A file that can be fetched; size and sha256 are None where they are not known."""

    name: str
    url: str
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Signals:
    """Channels recorded together; the rate is None where every device has its own."""

    channels: tuple[str, ...]
    units: str
    place: str
    sampling_rate_hz: float | None = None


@dataclass(frozen=True)
class Labels:
    """The classes, label 0 first."""

    classes: tuple[str, ...]


@dataclass(frozen=True)
class Windowing:
    """How the recordings are cut by default, and what is computed of a window.

    `features` is None where a window stays as it is: channels first, ``x [n, channels, time]``.
    """

    window_s: float
    overlap: float
    time_ordered: bool
    features: str | None = None


@dataclass(frozen=True)
class Paper:
    """How the papers on FedSub used the data set."""

    use: str


@dataclass(frozen=True)
class Preparation:
    """What ``fedsub data prepare`` needs as ``--source``."""

    source: str


@dataclass(frozen=True)
class DatasetCard:
    """A data set's card.

    Parameters
    ----------
    name, task, people : str, str, int
        Its folder's name, what is recognised, and how many people were recorded.
    files : tuple of OfficialFile
        What ``fedsub data fetch`` downloads; empty unless access is open.
    signals, other_signals : Signals, tuple of Signals
        What preparation reads by default, and what else was recorded.
    prepare : Preparation or None
        None where there is nothing to prepare.
    """

    name: str
    task: str
    people: int
    source: Source
    signals: Signals
    labels: Labels
    windowing: Windowing
    paper: Paper
    files: tuple[OfficialFile, ...] = ()
    other_signals: tuple[Signals, ...] = ()
    prepare: Preparation | None = None


def check_dataset_card(card: DatasetCard, path: Path) -> None:
    """Refuse values of the right type that still cannot be; `path` is the card's file.

    Raises
    ------
    DataError
        Names the file, the key, what it holds and what was expected.
    """
    for fits, key, got, expected in _rules(card, path.parent.name):
        if not fits:
            raise refused_key(path, key, got, expected)


def _rules(card: DatasetCard, folder: str) -> Iterator[tuple[bool, str, object, str]]:
    """Yield whether each rule holds, its key, what came and what was expected."""
    source, windowing = card.source, card.windowing
    yield card.name == folder, "name", card.name, f"the folder's name {folder!r}"
    yield card.people > 0, "people", card.people, "a number above 0"
    yield source.access in ACCESS, "source.access", source.access, f"one of {', '.join(ACCESS)}"
    yield from _address("source.page", source.page)
    for key, access in _BELONGS.items():
        there = getattr(source, key) is not None
        want = f"a value where access is {access}, and only there"
        yield there == (source.access == access), f"source.{key}", getattr(source, key), want
    if source.apply is not None:
        yield from _address("source.apply", source.apply)
    yield from _content("source", source.bytes, source.sha256)
    fetched = source.access == "open"
    yield fetched == bool(card.files), "files", len(card.files), "some if access is open, or none"
    for i, file in enumerate(card.files):
        plain = file.name == Path(file.name).name and not file.name.startswith(".")
        yield plain, f"files[{i}].name", file.name, "a plain file name"
        yield from _address(f"files[{i}].url", file.url)
        yield from _content(f"files[{i}]", file.bytes, file.sha256)
    for signals in (card.signals, *card.other_signals):
        rate = signals.sampling_rate_hz
        yield rate is None or 0 < rate < 1e6, "sampling_rate_hz", rate, "a number above 0"
        yield bool(signals.channels), "signals.channels", signals.channels, "at least one"
    yield len(card.labels.classes) >= 2, "labels.classes", card.labels.classes, "two or more"
    window = windowing.window_s
    yield 0 < window < 1e6, "windowing.window_s", window, "a number above 0"
    overlap = windowing.overlap
    yield 0 <= overlap < 1, "windowing.overlap", overlap, "a share from 0 to below 1"


def _address(key: str, address: str) -> Iterator[tuple[bool, str, object, str]]:
    parts = urlsplit(address)
    fits = parts.scheme == "https" and bool(parts.hostname)
    yield fits, key, address, "an address that starts with https://"


def _content(
    key: str, size: int | None, sha256: str | None
) -> Iterator[tuple[bool, str, object, str]]:
    yield size is None or size > 0, f"{key}.bytes", size, "a number above 0"
    fits = sha256 is None or re.fullmatch("[0-9a-f]{64}", sha256) is not None
    yield fits, f"{key}.sha256", sha256, "64 hex digits in lower case"
