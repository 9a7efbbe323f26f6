"""The catalogue of data sets: the cards ``datasets/<name>/card.toml``, and packages', checked."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from fedsub_core.errors import DataError
from fedsub_core.options import suggestion
from fedsub_data.catalogue.dataset_card import MANY, DatasetCard
from fedsub_data.catalogue.installed import installed, installed_data_set

CARD_FILE = "card.toml"
ACCESS = ("open", "by-hand", "credentialed", "installed")
# Keys of [source] that only one kind of access has, and always.
_BELONGS = {"apply": "credentialed"} | dict.fromkeys(("file", "sha256", "bytes"), "installed")
T = TypeVar("T")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
#: Whether a rule holds, its key, what came and what was expected.
Rule = tuple[bool, str, object, str]


def datasets_folder() -> Path:
    """Return the folder of the cards: the checkout's, or where pip put it.

    Raises DataError where it is at none of these places.
    """
    # Beside an installed fedsub may lie another project's package "datasets": ask for our card.
    package = Path(__file__).resolve().parents[1]
    places = [package.parent / "datasets", package / "cards"]
    for place in places:
        if (place / "watch" / CARD_FILE).is_file():
            return place
    tried = ", ".join(str(place) for place in places)
    raise DataError(f"the data sets' cards are at none of {tried}. Reinstall fedsub.")


def house_names() -> list[str]:
    """Return the names of FedSub's own data sets, in order."""
    return sorted(path.parent.name for path in datasets_folder().glob(f"*/{CARD_FILE}"))


def names() -> list[str]:
    """Return the names of all data sets, in order."""
    return sorted({*house_names(), *installed()})


def read_dataset_card(name: str) -> DatasetCard:
    """Return the card of the data set `name`.

    Raises DataError where there is no such data set (suggests the nearest name), or its card is no
    TOML, has an unknown key, lacks one, or has a value that cannot be.
    """
    known = names()
    if name not in known:
        raise DataError(
            f"unknown data set {name!r}; known are {', '.join(known)}.{suggestion(name, known)}"
        )
    own = name in house_names()
    folder = datasets_folder() / name if own else installed_data_set(name).folder
    path = folder / CARD_FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as TOML: {error}. Correct the file.") from error
    card = _strict(DatasetCard, table, path)
    for fits, key, got, expected in _rules(card, path.parent.name):
        if not fits:
            raise _refused(path, key, got, expected)
    return card


def _rules(card: DatasetCard, folder: str) -> Iterator[Rule]:
    """Yield the rules that a card must keep to beside the types of its values."""
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


def _of_recordings(card: DatasetCard) -> Iterator[Rule]:
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


def _of_collection(card: DatasetCard) -> Iterator[Rule]:
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


def _address(key: str, address: str) -> Iterator[Rule]:
    parts = urlsplit(address)
    fits = parts.scheme == "https" and bool(parts.hostname)
    yield fits, key, address, "an address that starts with https://"


def _content(key: str, size: int | None, sha256: str | None) -> Iterator[Rule]:
    yield size is None or size > 0, f"{key}.bytes", size, "a number above 0"
    fits = sha256 is None or re.fullmatch("[0-9a-f]{64}", sha256) is not None
    yield fits, f"{key}.sha256", sha256, "64 hex digits in lower case"


def _strict(kind: type[T], table: object, path: Path, where: str = "") -> T:
    """Return a TOML table as the dataclass `kind`, whose fields are the table's keys.

    A field is text, a whole number, a number, true or false, a tuple of texts, another such
    dataclass (an inner table) or a tuple of them (an array of tables). With a default it may be
    left out; a default of None stands for "not known".

    `path`, `where`: the file, and the inner table's place in it such as ``"source."``.

    Raises DataError at an unknown or missing key or a value of another type: names the file and the
    key.
    """
    if not isinstance(table, dict):
        raise _refused(path, where.rstrip("."), table, "a table")
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # a dataclass by contract
    for key in table:
        if key not in known:
            hint = suggestion(key, known) or " Remove it."
            raise DataError(
                f"{path}: unknown key '{where}{key}'; known are {', '.join(known)}.{hint}"
            )
    for key, field in known.items():
        if key not in table and field.default is MISSING:
            raise DataError(f"{path}: key '{where}{key}' is missing. Add it.")
    return kind(**{k: _value(hints[k], v, path, where + k) for k, v in table.items()})


def _refused(path: Path, key: str, got: object, expected: str) -> DataError:
    """Return the error for a key's value, with the file, what came and what was expected."""
    return DataError(f"{path}: {key}: got {got!r}, expected {expected}. Correct the value.")


def _value(hint: Any, value: object, path: Path, key: str) -> Any:
    options = [h for h in get_args(hint) if h is not type(None)]
    if get_origin(hint) is tuple:
        return _items(options[0], value, path, key)
    if get_origin(hint) is not None:  # X | None: a key of TOML is never None
        hint = options[0]
    if is_dataclass(hint):
        return _strict(hint, value, path, f"{key}.")  # type: ignore[arg-type]
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint or (hint is str and not str(value).strip()):
        raise _refused(path, key, value, _WORDS[hint])
    return value


def _items(hint: Any, value: object, path: Path, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _refused(path, key, value, "a list")
    items = tuple(_value(hint, v, path, f"{key}[{i}]") for i, v in enumerate(value))
    if len(set(items)) < len(items):
        raise _refused(path, key, value, "no entry twice")
    return items
