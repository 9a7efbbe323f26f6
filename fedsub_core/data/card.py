"""A federation's card, ``federation.toml``: what the data are, in which shape and units."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedsub_core.config.capacities import check_capacities
from fedsub_core.data.card_values import (
    UNKNOWN,
    read_names,
    read_overlap,
    read_positive,
    read_text,
    refused,
)
from fedsub_core.data.samples import IMAGE, KINDS, MOST_TOKENS, NODE, TOKENS, Samples, kept_shape
from fedsub_core.data.sensors import Sensors, check_sensors
from fedsub_core.data.target import Target, read_target
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import suggestion

CARD_FILE = "federation.toml"
#: What samples that stay together in a split are of.
GROUPS = ("recording", "day", "session")
#: Keys that token ids need, and those that only samples with a length in time have.
_OF_TOKENS, _OF_TIME = ("vocabulary", "padding"), ("sampling_rate_hz", "window_s", "overlap")


@dataclass(frozen=True)
class Card:
    """What every client's file of one federation shares.

    Parameters
    ----------
    name, task : short name, and what is recognised.
    classes : names of label 0, 1, ...; at least two. Of a target they are its two ends.
    features : columns of ``x [n, F]``, or channels of ``x [n, F, time]`` and
        ``x [n, F, height, width]``; of token ids one name, what an id stands for.
    units : of the features, in words; may be empty.
    sampling_rate_hz : of the signal inside a window; None where windows are already features.
    window_s : length of one window, s; None where not known. Of raw windows it then follows from
        their samples and the rate.
    overlap : share of a window that its successor repeats, in [0, 1); 0 is also what is not said.
        Times ``t`` that show overlap are then believed. None, ``"unknown"`` in the file: nobody
        knows whether samples overlap, unless ``t`` shows it.
    time_ordered : whether the order of a client's file is the order in time.
    sample : ``features``, ``window``, ``image``, ``tokens`` or ``node``, of a graph; None: one of
        the first three, by the axes of ``x``.
    vocabulary, padding : of token ids: all are below `vocabulary`, and `padding` fills short texts
        up; None of other samples.
    capacities : what share of a model people's devices hold: as the run's option of that name,
        which it precedes; in the file also a table of client = share. None: nothing is said.
    meanings : what each class is in words, where the names are short; None: the names say it.
    sensors : of each sensor of 2 to 4 axes the places of its channels in `features`, such as
        ``[[0, 1, 2], [3, 4, 5]]``; of its axes encoders see the norm, too. None: nothing is said.
    groups : what ``group`` in clients' files numbers: ``recording``, ``day`` or ``session``; None:
        nothing is said.
    target : the number that samples have in the place of a class (regression); None: classes.
    """

    name: str
    task: str
    classes: tuple[str, ...]
    features: tuple[str, ...]
    units: str = ""
    sampling_rate_hz: float | None = None
    window_s: float | None = None
    overlap: float | None = 0.0
    time_ordered: bool = False
    # What older cards do not say is left out where they are compared by their text.
    sample: str | None = field(default=None, repr=False)
    vocabulary: int | None = field(default=None, repr=False)
    padding: int | None = field(default=None, repr=False)
    capacities: str | None = field(default=None, repr=False)
    meanings: tuple[str, ...] | None = field(default=None, repr=False)
    sensors: Sensors | None = field(default=None, repr=False)
    groups: str | None = field(default=None, repr=False)
    target: Target | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.target is not None:
            object.__setattr__(self, "classes", self.target.ends)

    def shape_of(self, x: Samples) -> tuple[int, ...]:
        """Return the shape of one of the samples ``x [n, ...]``, with what its numbers are."""
        return kept_shape(x, self.vocabulary, self.padding, self.sample, self.sensors)

    @property
    def explained(self) -> str:
        """What each class is in words; "" where the names say it."""
        named = zip(self.classes, self.meanings or (), strict=False)
        return ", ".join(f"{name} is {meaning}" for name, meaning in named)


_KNOWN = [f.name for f in fields(Card)]


def read_card(folder: Path | str) -> Card:
    """Return the card of the federation in `folder`.

    Raises DataError where the folder or its card is missing, is no TOML, lacks a key, has one that
    does not exist (a misspelt ``overlap`` would let a split leak), or a value of the wrong kind.
    """
    path = Path(folder, CARD_FILE)
    if not path.parent.is_dir():
        raise DataError(
            f"{path.parent}: no such folder; expected a federation: a folder with {CARD_FILE} and "
            "clients/. Check the path."
        )
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; a federation is described by one. Write it with the keys "
            f"{', '.join(_KNOWN)}, or choose a folder that has it."
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as TOML: {error}. Correct the file.") from error
    return parse_card(table, path)


def check_card(card: Card, path: Path) -> None:
    """Refuse a card that could not be read back from `path`; raises as :func:`read_card`."""
    parse_card(card_table(card), path)


def card_table(card: Card) -> dict[str, Any]:
    """Return the card as a TOML table; keys that are None stay out, but for an unknown overlap."""
    values = ((name, getattr(card, name)) for name in _KNOWN)
    table = {k: _listed(v) for k, v in values if v is not None}
    table = table if card.target is None else card.target.written(table)
    return table if card.overlap is not None else table | {"overlap": UNKNOWN}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def parse_card(table: dict[str, Any], path: Path) -> Card:
    """Return the card in a TOML table that stands in `path`; raises as :func:`read_card`."""
    for key in table:
        if key not in _KNOWN:
            known = f"{', '.join(_KNOWN)}.{suggestion(key, _KNOWN) or ' Remove it.'}"
            raise DataError(f"{path}: unknown key {key!r}; known are {known}")
    sample = _sample(table.get("sample"), path)
    if sample == TOKENS:
        table = {"features": ["token"], "padding": 0} | table
    target, table = read_target(table, path)
    for key in ("name", "task", "classes", "features", *(_OF_TOKENS if sample == TOKENS else ())):
        if key not in table:
            who = "federation of tokens" if key in _OF_TOKENS else "federation"
            raise DataError(f"{path}: key {key!r} is missing; every {who} has it. Add it.")
    if not isinstance(ordered := table.get("time_ordered", False), bool):
        raise refused(path, "time_ordered", ordered, "true or false")
    _check_kind(table, sample, path)
    vocabulary = _id(table.get("vocabulary"), "vocabulary", 2, MOST_TOKENS, path)
    return Card(
        name=read_text(table["name"], "name", path),
        task=read_text(table["task"], "task", path),
        classes=read_names(table["classes"], "classes", 2, path),
        features=read_names(table["features"], "features", 1, path),
        units=read_text(table.get("units", ""), "units", path, may_be_empty=True),
        sampling_rate_hz=read_positive(table.get("sampling_rate_hz"), "sampling_rate_hz", path),
        window_s=read_positive(table.get("window_s"), "window_s", path),
        overlap=read_overlap(table.get("overlap", 0.0), path),
        time_ordered=ordered,
        sample=sample,
        vocabulary=vocabulary,
        padding=_id(table.get("padding"), "padding", 0, (vocabulary or 1) - 1, path),
        capacities=_capacities(table.get("capacities"), path),
        meanings=_meanings(table, path),
        sensors=_sensors(table, sample, path),
        groups=_groups(table.get("groups"), path),
        target=target,
    )


def _groups(value: object, path: Path) -> str | None:
    if value is None or (isinstance(value, str) and value in GROUPS):
        return value
    raise refused(path, "groups", value, ", ".join(GROUPS))


def _sample(value: object, path: Path) -> str | None:
    if value is None or (isinstance(value, str) and value in KINDS):
        return value
    hint = f"{', '.join(KINDS)}.{suggestion(str(value), list(KINDS))}"
    raise DataError(f"{path}: sample: got {value!r}, expected {hint}")


def _check_kind(table: dict[str, Any], sample: str | None, path: Path) -> None:
    """Refuse keys that samples of the card's kind do not have."""
    of_time = [key for key in _OF_TIME if table.get(key)] if sample in (IMAGE, TOKENS, NODE) else []
    of_tokens = [] if sample == TOKENS else [key for key in _OF_TOKENS if key in table]
    for key in (*of_time, *of_tokens):
        whose = "windows and features of windows" if key in _OF_TIME else "token ids"
        raise DataError(
            f"{path}: {key}: got {table[key]!r} for samples of kind {sample or 'not said'!r}, "
            f"expected it of {whose} alone. Remove it, or correct sample."
        )
    if sample == TOKENS and isinstance(names := table["features"], list) and len(names) != 1:
        raise refused(path, "features", names, "one name, of what a token stands for")


def _id(value: object, key: str, least: int, most: int, path: Path) -> int | None:
    if value is None or (type(value) is int and least <= value <= most):
        return value
    raise refused(path, key, value, f"a whole number from {least} to {most}")


def _meanings(table: dict[str, Any], path: Path) -> tuple[str, ...] | None:
    value, classes = table.get("meanings"), len(table["classes"])
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != classes:
        raise refused(path, "meanings", value, f"a list of {classes} texts, one for each class")
    return tuple(read_text(meaning, "meanings", path) for meaning in value)


def _sensors(table: dict[str, Any], sample: str | None, path: Path) -> Sensors | None:
    if (value := table.get("sensors")) is None:
        return None
    if sample in (IMAGE, TOKENS, NODE):
        raise refused(path, "sensors", value, f"none for samples of kind {sample!r}")
    try:
        return check_sensors(value, len(table["features"]))
    except ValueError as error:
        raise DataError(f"{path}: sensors: {error}. Correct the value.") from error


def _capacities(value: object, path: Path) -> str | None:
    """Return what is said of devices as one text, a table of client = share too."""
    if value is None:
        return None
    if isinstance(value, dict):
        value = ",".join(f"{client}={share}" for client, share in value.items())
    if not isinstance(value, str):
        raise refused(path, "capacities", value, "a text of shares, or a table of client = share")
    try:
        check_capacities(value)
    except ConfigError as error:
        raise DataError(f"{path}: capacities: {error}. Correct the value.") from error
    return value
