"""Layouts: how a logger writes its recordings, each a TOML file in ``layouts/`` or of one's own."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from fedsub_core.errors import ConfigError, DataError, cut
from fedsub_core.options import nearest
from fedsub_core.spelling import spelt
from fedsub_data.importing.roles import COUNTERS, LABELS, SUBJECTS, TIMES, plain
from fedsub_data.importing.time_unit import SECONDS

_FOLDER = Path(__file__).with_name("layouts")
#: Kinds of recordings: all files of a folder, or each file.
FOLDER, FILE = "folder", "file"
#: Names of the column of time, by unit; the unit is seen in them.
_UNITS = {"": "time", "s": "seconds", "ms": "time_ms", "us": "time_us", "ns": "time_ns"}


@dataclass(frozen=True)
class Head:
    """Lines before the rows, which say the start and the rate of rows without times.

    Parameters
    ----------
    rate, start : regular expressions of samples a second and of seconds since 1970, each with a
        group; or `start_date` and `start_time`; dates have the day first where `day_first` is seen.
    """

    lines: int = 0
    rate: str = ""
    start: str = ""
    start_date: str = ""
    start_time: str = ""
    day_first: str = ""


@dataclass(frozen=True)
class SensorLayout:
    """The files of one sensor.

    Parameters
    ----------
    files : patterns of its files' names, in any case.
    columns : regular expressions of columns by the feature's name; none: all columns of numbers.
    names : columns of files without a line of names.
    time, time_unit : regular expression of the column of time; its unit, "" where it is guessed.
    scale, units : by what numbers are multiplied, and their units then.
    optional : whether it is used only where it is asked for.
    kept : columns that keep their names, where others get the sensor's name in front.
    """

    name: str
    files: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    time: str = ""
    time_unit: str = ""
    scale: float = 1.0
    units: str = ""
    head: Head | None = None
    optional: bool = False
    kept: tuple[str, ...] = ()

    def renamed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of a file's columns, those that are known by their names here."""
        made, patterns = list(columns), dict(self.columns)
        if not self.columns and not self.names:
            other = {*_WHOSE, *TIMES, *COUNTERS}
            return tuple(
                name
                if name in self.kept or plain(name) in other or self.name.lower() in name.lower()
                else f"{self.name}_{name}"
                for name in columns
            )
        if self.time:
            patterns[_UNITS[self.time_unit]] = self.time
        for name, pattern in patterns.items():
            at = next((i for i, own in enumerate(columns) if re.fullmatch(pattern, own)), None)
            if at is not None:
                made[at] = name
        return tuple(made)

    def is_known(self, column: str) -> bool:
        """Return whether a renamed column is a feature or the time, or seems to say who or what."""
        known = {*self.columns, *self.names, *_UNITS.values()}
        return not known - set(_UNITS.values()) or column in known or plain(column) in _WHOSE

    def fits(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns can be of this sensor."""
        own = self.renamed(columns)
        timed = not self.time or _UNITS[self.time_unit] in own
        return timed and any(name in own for name in (*self.columns, *self.names))


_WHOSE = {*SUBJECTS, *LABELS} - {"y", "t"}


@dataclass(frozen=True)
class Layout:
    """The layout of a logger's recordings.

    Parameters
    ----------
    name, title : for options, and for people.
    recording : FOLDER or FILE: what one recording is.
    sensors : in the order of their columns.
    leave_out : patterns of files that are no signals.
    sign : regular expression that the first lines of a file have, "" for none.
    """

    name: str
    title: str
    recording: str
    sensors: tuple[SensorLayout, ...]
    leave_out: tuple[str, ...] = ()
    sign: str = ""

    def sensor_of(self, path: Path) -> SensorLayout | None:
        """Return the sensor of a file by its name; None for none."""
        return next((each for each in self.sensors if _is_one(path, each.files)), None)

    def is_left_out(self, path: Path) -> bool:
        """Return whether a file is no signal by its name."""
        return _is_one(path, self.leave_out)


def _is_one(path: Path, patterns: Sequence[str]) -> bool:
    """Return whether a file's name, or with as many folders as a pattern has, fits a pattern."""
    name = path.name.removesuffix(".gz")
    names = [("/".join((*path.parts[-1 - p.count("/") : -1], name)), p) for p in patterns]
    return any(fnmatch(own.lower(), pattern.lower()) for own, pattern in names)


def layout_names() -> list[str]:
    """Return the names of the layouts that are there."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def read_layout(name: str) -> Layout:
    """Return a layout by its name, or from a TOML file of one's own.

    Raises ConfigError where there is none of this name. Raises DataError where the file is no
    layout; it names the key.
    """
    path = Path(name) if name.endswith(".toml") else _FOLDER / f"{name}.toml"
    if not path.is_file() or (path.parent == _FOLDER and name not in layout_names()):
        raise ConfigError(
            f"layout: got {name!r}, expected {', '.join(layout_names())}, or a file such as "
            f"mine.toml.{nearest(name, layout_names(), 'Layouts')}"
        )
    try:
        read = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path}: cannot be read as TOML ({cut(error)}). Check the file") from error
    return _layout(path, read)


def _layout(path: Path, read: Mapping[str, Any]) -> Layout:
    sensors = read.get("sensor", {})
    _check_keys(path, "", read, {"title", "recording", "leave_out", "sign", "sensor"})
    if read.get("recording") not in (FOLDER, FILE):
        raise DataError(
            f"{path}: recording: got {read.get('recording')!r}, expected {FOLDER!r} or {FILE!r}"
        )
    if not isinstance(sensors, dict) or not sensors:
        raise DataError(f"{path}: got no sensor, expected a table [sensor.NAME] for each")
    if read["recording"] == FILE and len(sensors) > 1:
        raise DataError(
            f"{path}: got {len(sensors)} sensors of recordings that are files, expected one table "
            "[sensor.NAME] with the columns of all"
        )
    made = tuple(_sensor(path, name, own) for name, own in sensors.items())
    title = str(read.get("title", path.stem))
    leave_out, sign = tuple(read.get("leave_out", ())), read.get("sign", "")
    _check_pattern(path, "sign", sign)
    return Layout(path.stem, title, read["recording"], made, leave_out, sign)


def _sensor(path: Path, name: str, read: Any) -> SensorLayout:
    """Return the layout of one sensor; raises DataError where a key is not as expected."""
    where = f"sensor.{name}"
    if not isinstance(read, dict):
        raise DataError(f"{path}: {where}: got {cut(read)}, expected a table [{where}]")
    _check_keys(path, where, read, {f.name for f in fields(SensorLayout)} - {"name", "kept"})
    if not isinstance(read.get("files"), list) or not read["files"]:
        raise DataError(f"{path}: {where}.files: got none, expected patterns of files' names")
    columns, head = read.get("columns", {}), read.get("head")
    if not columns and not read.get("names"):
        raise DataError(f"{path}: {where}: got no columns, expected columns, or names in order")
    if head is not None:
        _check_keys(path, f"{where}.head", head, {f.name for f in fields(Head)})
    if not read.get("time") and head is None:
        raise DataError(f"{path}: {where}: got no time, expected time, or a head with a rate")
    if read.get("time_unit", "") not in ("", *SECONDS):
        raise DataError(
            f"{path}: {where}.time_unit: got {read['time_unit']!r}, expected {', '.join(SECONDS)}"
        )
    patterns = {**columns, "time": read.get("time", "")}
    patterns |= {k: v for k, v in (head or {}).items() if k != "lines"}
    for key, pattern in patterns.items():
        _check_pattern(path, f"{where}: {key}", pattern)
    listed = {key: tuple(read[key]) for key in ("files", "names") if key in read}
    return SensorLayout(name, **{**read, **listed, "head": Head(**head) if head else None})


def _check_keys(path: Path, where: str, read: Mapping[str, Any], known: set[str]) -> None:
    if wrong := next((key for key in read if key not in known), None):
        place = f"{where}.{wrong}".lstrip(".")
        raise DataError(f"{path}: {place}: unknown key.{nearest(wrong, known, 'Known keys')}")


def _check_pattern(path: Path, where: str, pattern: object) -> None:
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise DataError(
            f"{path}: {where}: got {pattern!r}, expected a regular expression: {error}. To change "
            f"the layout: {spelt('layout')}"
        ) from error
