"""Facts of each file by the names of files and folders: person, class, recording, sensor."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedsub_core.errors import ConfigError, DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import NAME_GROUPS, ImportOptions

#: What a group of a pattern is, in words.
_WORDS = {"subject": "person", "label": "class", "recording": "recording", "sensor": "sensor"}
#: Groups that some names may lack.
_MAY_LACK = {"recording", "sensor"}


@dataclass(frozen=True)
class Names:
    """The facts that files' names give.

    Parameters
    ----------
    values : a text for each file, by group of the pattern.
    pattern : with which they were found; "" for none.
    asked : whether somebody gave the pattern; else it was guessed.
    notes : on names that a guess does not fit, in sentences.
    """

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pattern: str = ""
    asked: bool = False
    notes: tuple[str, ...] = ()

    @property
    def asked_groups(self) -> frozenset[str]:
        """Groups of a given pattern: no column is looked for."""
        return frozenset(self.values) if self.asked else frozenset()

    def of(self, group: str, file: int) -> str | None:
        """Return a group's text in a file's name; None where names do not say it."""
        return self.values[group][file] if group in self.values else None

    def guessed(self, used: Collection[str]) -> list[str]:
        """Return sentences on a guess of which some groups are used."""
        if self.asked:
            return []
        used = [group for group in NAME_GROUPS if group in used and group in self.values]
        if not used:
            return list(self.notes)
        pattern = self.pattern
        for group in set(self.values) - set(used) - _MAY_LACK:  # a column says it
            pattern = pattern.replace(f"(?P<{group}>", "(?:")
        found = listed([_WORDS[group] for group in used], len(used))
        quoted = f"'{pattern}'"  # as a shell takes it, with single backslashes
        lines = [f"Guessed, {found} by the files' names: {spelt('from-name', quoted)}."]
        lines += [
            f"By the names, the {_WORDS[group]} is {listed(dict.fromkeys(self.values[group]), 8)}."
            for group in used
        ]
        return lines


#: Of tables in memory.
NO_NAMES = Names()


def names_of(files: Sequence[Path], options: ImportOptions) -> Names:
    """Return the facts of files' names, by the pattern that is given or else guessed.

    Raises ConfigError where the given pattern finds nothing in a name. Raises DataError where files
    of one recording are of several sensors.
    """
    if not options.from_name:
        from fedsub_data.importing.name_guess import guessed_pattern

        pattern, notes = guessed_pattern(files)
        values = named(files, pattern) if pattern else {}
        return Names(values, pattern, notes=tuple(notes))
    names = Names(named(files, options.from_name), options.from_name, asked=True)
    if "sensor" in names.values:
        _check_sensors(files, names)
    return names


def searched(path: Path, pattern: str) -> str:
    """Return the part of a path in which a pattern is searched, with ``/`` between names.

    It is the file's name, and as many folders above it as the pattern has slashes.
    """
    return "/".join(path.absolute().parts[-1 - pattern.count("/") :])


def named(files: Sequence[Path], pattern: str) -> dict[str, tuple[str, ...]]:
    """Return the finds of a pattern in each file's name, by group; raises ConfigError.

    A pattern without named groups has the person in its first one.
    """
    compiled = re.compile(pattern)
    groups: dict[str, str | int] = {g: g for g in compiled.groupindex} or {"subject": 1}
    values: dict[str, list[str]] = {group: [] for group in groups}
    for path in files:
        text = searched(path, pattern)
        match = compiled.search(text)
        for group, key in groups.items():
            found = match[key] if match else None
            if match is None or not (found or group in _MAY_LACK):
                raise ConfigError(
                    f"from-name: got {pattern!r}, which finds no {_WORDS[group]} in {text!r}; "
                    "expected a group that is there in every file's name. A pattern with / is "
                    "searched in the folder's name, too"
                )
            values[group].append((found or "").strip())
    return {group: tuple(found) for group, found in values.items()}


def _check_sensors(files: Sequence[Path], names: Names) -> None:
    """Refuse files of several sensors that are one recording by all else that names say."""
    seen: dict[tuple[str | None, ...], int] = {}
    for i, path in enumerate(files):
        key = tuple(names.of(group, i) for group in NAME_GROUPS if group != "sensor")
        first = seen.setdefault(key, i)
        if names.of("sensor", i) != names.of("sensor", first):
            raise DataError(
                f"{files[first]} and {path}: got one recording of the sensors "
                f"{names.of('sensor', first)!r} and {names.of('sensor', i)!r}, expected all "
                "sensors of a recording in one table. Join them by time, with a column for each "
                "axis (pandas.merge_asof), or import the files of one sensor"
            )
