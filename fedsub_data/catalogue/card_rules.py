"""What a data set's card must keep to beside the types of its values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from fedsub_data.catalogue.dataset_card import MANY, DatasetCard
from fedsub_data.catalogue.strict_tables import refused_key

ACCESS = ("open", "by-hand", "credentialed", "installed")
# Keys of [source] that only one kind of access has, and always.
_BELONGS = {"apply": "credentialed"} | dict.fromkeys(("file", "sha256", "bytes"), "installed")


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
    source = card.source
    yield card.name == folder, "name", card.name, f"the folder's name {folder!r}"
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
    yield from _of_collection(card) if card.samples is not None else _of_recordings(card)
    if card.labels is not None:
        yield len(card.labels.classes) >= 2, "labels.classes", card.labels.classes, "two or more"


def _of_recordings(card: DatasetCard) -> Iterator[tuple[bool, str, object, str]]:
    for key in ("people", "signals", "labels", "windowing"):
        yield getattr(card, key) is not None, key, None, "it, or samples of a collection"
    assert card.people is not None and card.signals is not None and card.windowing is not None
    yield card.people > 0, "people", card.people, "a number above 0"
    for signals in (card.signals, *card.other_signals):
        rate = signals.sampling_rate_hz
        yield rate is None or 0 < rate < 1e6, "sampling_rate_hz", rate, "a number above 0"
        yield bool(signals.channels), "signals.channels", signals.channels, "at least one"
    window, overlap = card.windowing.window_s, card.windowing.overlap
    yield 0 < window < 1e6, "windowing.window_s", window, "a number above 0"
    yield 0 <= overlap < 1, "windowing.overlap", overlap, "a share from 0 to below 1"


def _of_collection(card: DatasetCard) -> Iterator[tuple[bool, str, object, str]]:
    samples = card.samples
    assert samples is not None
    for key in ("people", "signals", "windowing"):
        yield getattr(card, key) is None, key, getattr(card, key), "nothing beside samples"
    yield samples.kind in MANY, "samples.kind", samples.kind, f"one of {', '.join(MANY)}"
    yield samples.count > 0, "samples.count", samples.count, "a number above 0"
    named = samples.classes if card.labels is None else len(card.labels.classes)
    fits = samples.classes == named and named >= 2
    yield fits, "samples.classes", samples.classes, "two or more, as many as labels.classes has"
    yield bool(samples.parts), "samples.parts", samples.parts, "at least one"


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
