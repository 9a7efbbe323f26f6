"""Which column is what: as it was said, else guessed by its name and the first rows."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.options import suggestion
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import check_turns
from fedsub_data.importing.first_rows import check_unit_rows
from fedsub_data.importing.names import NO_NAMES, Names
from fedsub_data.importing.options import NONE, ImportOptions
from fedsub_data.importing.other_labels import other_labels
from fedsub_data.importing.rising import rising

#: Names of columns, in small letters and without marks, by what they are; the first found counts.
SUBJECTS = (
    "subject", "subjectid", "person", "personid", "participant", "participantid", "user", "userid",
    "patient", "patientid", "client", "clientid", "volunteer", "pid", "uid", "sid", "who", "id",
)  # fmt: skip
LABELS = (
    "label", "labels", "activity", "activitylabel", "activityid", "class", "classname", "target",
    "gesture", "state", "condition", "stage", "y", "gt",
)  # fmt: skip
TIMES = (
    "time", "timestamp", "t", "datetime", "date", "ts", "seconds", "timestamps", "times", "sec",
    "timems", "timens", "timeus", "ms", "elapsed", "elapsedtime", "unixtime", "epoch",
    "zeit", "zeitstempel", "temps", "horodatage", "tiempo", "marcadetiempo", "marcatemporale",
)  # fmt: skip
#: Columns that number rows.
COUNTERS = ("", "unnamed0", "index", "row", "rowid", "column00", "nr", "no")
#: Of the first rows such a share must be numbers, for a column of them.
MOSTLY = 0.9
_NUMBER = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*", re.ASCII)
#: Texts that are no value, in small letters.
EMPTY = {"", "na", "nan", "n/a", "null", "none", "?"}


@dataclass(frozen=True)
class Roles:
    """The columns of a table by their role; None: there is none.

    `notes` say what was guessed and what is left out. `rising` are guessed features that in the
    first rows rise as a time does.
    """

    subject: str | None
    label: str | None
    time: str | None
    features: tuple[str, ...]
    notes: tuple[str, ...]
    rising: tuple[str, ...] = ()
    recording: str | None = None
    part: str | None = None

    def check_columns(self, columns: Collection[str], where: str, first: str) -> None:
        """Refuse a table that lacks a column of the first one; raises DataError."""
        needed = [self.subject, self.label, self.time, self.recording, self.part]
        needed += self.features
        if lacking := [name for name in needed if name is not None and name not in columns]:
            raise DataError(
                f"{where}: got columns {', '.join(columns)}, expected {', '.join(lacking)} as in "
                f"{first}. Rename them, or import apart"
            )


def plain(name: str) -> str:
    """Return a column's name in small letters and without marks."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_number(text: str) -> bool:
    """Return whether a text is a number, its decimals behind a point or a comma."""
    return _NUMBER.fullmatch(text) is not None


def roles(
    columns: Mapping[str, Sequence[str | None]],
    options: ImportOptions,
    where: str,
    named: Names = NO_NAMES,
) -> Roles:
    """Return the role of each column.

    Parameters
    ----------
    columns : the first rows' texts by column; None is no value.
    where : the file, for messages.
    named : what files' names say.

    Raises DataError where a column that was named is not there, or one that is needed cannot be
    guessed.
    """
    _check_named(options, names := list(columns), where)
    notes: list[str] = []
    # Axes are called x, y and z.
    labels = [word for word in LABELS if word != "y" or "z" not in map(plain, names)]
    given = (options.label, options.time, options.subject, options.recording, options.part)
    taken = {*given, *options.named_features} - {""}

    def guessed(key: str, given: str, known: Sequence[str], *more: str | None) -> str | None:
        left = [name for name in names if name not in taken.union(more)]
        name = None if key in named.asked_groups else given or by_name(left, known)
        if name and not given:
            notes.append(f"Guessed: {spelt(key, name)}.")
        return name

    subject = guessed("subject", options.subject, SUBJECTS)
    by_time = bool(options.intervals)
    label = None if by_time else guessed("label", options.label, labels, subject)
    if label is None and not by_time and "label" not in named.values:
        raise _no_classes(names, named, where)
    timed = options.time != NONE
    time = guessed("time", options.time, TIMES, subject, label) if timed else None
    used = {subject, label, time, options.recording or None, options.part or None}
    if not (features := options.named_features):
        rest = {name: values for name, values in columns.items() if name not in used}
        # A second name of the person or the class would give the answer away.
        like = {n for n in rest if plain(n) in {*SUBJECTS, *labels, *TIMES}}
        like |= set(other_labels(columns, label or "", set(LABELS) - {"y"}))
        features = _guessed_features(rest, like, notes)
    _check_features(features, used, names, where)
    numeric = {n: _are_numbers(columns[n]) for n in (*features, time) if n is not None}
    check_unit_rows(numeric, columns, time, options, where)
    more = options.recording or None, options.part or None
    guess = Roles(subject, label, time, features, tuple(notes), (), *more)
    return guess if options.named_features else _checked(guess, columns, options, where)


def _check_features(
    features: Sequence[str], used: Collection[str | None], names: Sequence[str], where: str
) -> None:
    """Refuse no features at all, and those that are `used` as something else."""
    if not features:
        raise DataError(
            f"{where}: got columns {', '.join(names)}, expected numeric columns besides "
            f"{', '.join(str(name) for name in used if name)}. Name them with "
            f"{spelt('features', 'A,B,C')}"
        )
    if wrong := set(used) & set(features):
        raise DataError(
            f"{where}: features: got {', '.join(map(str, wrong))}, which is another role's column, "
            f"expected others. Leave it out of {spelt('features')}"
        )


def _no_classes(names: Sequence[str], named: Names, where: str) -> DataError:
    return DataError(
        f"{where}: got columns {', '.join(names)}, expected a column of classes. Name it "
        f"with {spelt('label', 'COLUMN')}, or say where the class stands in the files' names: "
        f"{spelt('from-name')} '(?P<subject>p[0-9]+)_(?P<label>[a-z]+)'"
        f"{''.join(f'. {note}' for note in named.notes)}"
    )


def _checked(
    guess: Roles, columns: Mapping[str, Sequence[str | None]], options: ImportOptions, where: str
) -> Roles:
    """Return guessed roles with features that rise; raise a DataError where devices take turns."""
    people = columns[guess.subject or guess.features[0]]
    people = people if guess.subject else [None] * len(people)
    if options.window != NONE and (guess.time is not None or options.rate):
        used = (guess.subject, guess.label, guess.time, guess.recording, guess.part)
        check_turns({n: each for n, each in columns.items() if n not in used}, people, where)
    rise = rising({name: _numbers(columns[name]) for name in guess.features}, people)
    return replace(guess, rising=rise)


def _check_named(options: ImportOptions, names: Sequence[str], where: str) -> None:
    """Raise a DataError where a column that was named is not there."""
    for key, named in (
        ("subject", options.subject),
        ("label", options.label),
        ("recording", options.recording),
        ("part", options.part),
        ("time", options.time if options.time != NONE else ""),
        *(("features", feature) for feature in options.named_features),
    ):
        if named and named not in names:
            hint = suggestion(named, names)
            raise DataError(
                f"{where}: {key}: got {named!r}, expected one of the columns "
                f"{', '.join(names)}.{hint}"
            )


def by_name(names: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the name that means the first of some known ones, None for none."""
    by_plain = {plain(name): name for name in reversed(names)}
    return next((by_plain[word] for word in known if word in by_plain), None)


def _guessed_features(
    rest: Mapping[str, Sequence[str | None]], like: Collection[str], notes: list[str]
) -> tuple[str, ...]:
    """Return the columns that are features; note what is left out.

    Parameters
    ----------
    rest : columns that are nothing else.
    like : those that seem to name person, class or time.
    """
    counters = [name for name in rest if plain(name) in COUNTERS]
    like = [name for name in rest if name in like and name not in counters]
    others = [name for name in rest if name not in (*counters, *like)]
    features = tuple(name for name in others if mostly_numbers(rest[name]))
    if features:
        notes.append(f"Guessed: {spelt('features', ','.join(features))}.")
    for names, why in (
        (counters, "number rows"),
        (like, "seem to name person, class or time"),
        ([name for name in others if name not in features], "are not numeric"),
    ):
        if names:
            notes.append(f"Left out, as they {why}: {', '.join(map(repr, names))}.")
    return features


def _are_numbers(values: Sequence[str | None]) -> list[bool | None]:
    return [None if v is None or v.strip().lower() in EMPTY else is_number(v) for v in values]


def _numbers(values: Sequence[str | None]) -> NDArray[np.float64]:
    read = [float(v.replace(",", ".")) if v and is_number(v) else np.nan for v in values]
    return np.array(read, np.float64)


def mostly_numbers(values: Sequence[str | None]) -> bool:
    """Return whether most values that are there are numbers."""
    there = [number for number in _are_numbers(values) if number is not None]
    return bool(there) and sum(there) >= MOSTLY * len(there)
