"""Files as a layout groups them: recordings, and each one's file of every sensor."""

import csv
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedsub_core.errors import DataError, listed
from fedsub_core.options import nearest
from fedsub_core.spelling import spelt
from fedsub_data.importing.encodings import begin, first_lines
from fedsub_data.importing.files import TEXT, kind_of
from fedsub_data.importing.heads import lines_before
from fedsub_data.importing.layout import FILE, Layout, SensorLayout, layout_names, read_layout
from fedsub_data.importing.options import NAME_GROUPS, ImportOptions
from fedsub_data.importing.roles import is_number
from fedsub_data.importing.time_unit import unit_since_1970

#: So many first files of a sensor show what it is.
_LOOKED_AT = 3


@dataclass(frozen=True)
class Grouped:
    """Recordings, each with its files by sensor.

    Parameters
    ----------
    sensors : those that are used, in their order.
    files : by the recording's name, then by the sensor's.
    of_one_file : whether each recording is a file, of one sensor.
    """

    sensors: tuple[SensorLayout, ...]
    files: Mapping[Path, Mapping[str, Path]]
    of_one_file: bool = False


def guessed_layout(
    files: Sequence[Path], options: ImportOptions
) -> tuple[Layout | None, list[str]]:
    """Return the one layout that files have, None for none, and sentences on it."""
    own_words = options.features or options.time or options.column_names
    if own_words or "sensor" in options.named_groups or kind_of(files) != TEXT:
        return None, []
    fitting = [layout for name in layout_names() if _fits(layout := read_layout(name), files)]
    if len(fitting) > 1:
        names = " or ".join(spelt("layout", layout.name) for layout in fitting)
        return None, [f"The files may be of several layouts: say {names}."]
    if not fitting:
        return None, []
    return fitting[0], [f"Guessed: {spelt('layout', fitting[0].name)}, {fitting[0].title}."]


def _fits(layout: Layout, files: Sequence[Path]) -> bool:
    """Return whether all folders, or all files, are of a layout, by names and first lines."""
    left = [path for path in files if not layout.is_left_out(path)]
    by_sensor: dict[str, list[Path]] = {}
    for path in left:
        if (sensor := layout.sensor_of(path)) is not None:
            by_sensor.setdefault(sensor.name, []).append(path)
    known = [path for own in by_sensor.values() for path in own]
    if layout.recording == FILE:
        if not known or len(known) < len(left):
            return False
    elif {path.parent for path in left} - {path.parent for path in known} or not known:
        return False
    sensors = {sensor.name: sensor for sensor in layout.sensors}
    looked_at = [
        (sensors[name], path)
        for name, own in by_sensor.items()
        for path in [path for path in own if has_rows(path, sensors[name])][:_LOOKED_AT]
    ]
    return bool(looked_at) and all(_is_of(path, layout, sensor) for sensor, path in looked_at)


def _is_of(path: Path, layout: Layout, sensor: SensorLayout) -> bool:
    """Return whether a file's first lines are as a layout has them."""
    lines = _lines(path)
    if layout.sign and not any(re.search(layout.sign, line) for line in lines[:20]):
        return False
    if (head := sensor.head) is not None:
        text, rest = "\n".join(lines[: head.lines]), lines[head.lines :]
        start = re.search(head.start, text) if head.start else None
        told = float(start[1]) if start and is_number(start[1]) else 0.0
        dated = not head.start or unit_since_1970(told) == "s"
        cells = [cell.strip(' "') for cell in rest[0].split(",")] if rest else []
        bare = bool(cells) and all(map(is_number, cells)) and len(cells) == len(sensor.names)
        return bool(re.search(head.rate, text)) and dated and (bare or sensor.fits(cells))
    sep = bool(lines) and lines[0].lower().lstrip('"').startswith("sep=")
    lines = lines[lines_before(lines, "") or int(sep) :]
    headers = [next(csv.reader(lines[:1], delimiter=mark), []) for mark in ",;\t"]
    return any(sensor.fits([cell.strip() for cell in cells]) for cells in headers)


def _lines(path: Path) -> list[str]:
    """Return a file's first lines; none where it is empty or cannot be read."""
    with suppress(DataError, OSError):
        return first_lines(path, begin(path, ImportOptions())[2])
    return []


def has_rows(path: Path, sensor: SensorLayout) -> bool:
    """Return whether a file has a row below its head or its names of columns."""
    head = 1 if sensor.head is None else sensor.head.lines
    return sum(bool(line.strip()) for line in _lines(path)) > head


def grouped(
    files: Sequence[Path], layout: Layout, options: ImportOptions
) -> tuple[Grouped, list[str]]:
    """Return the recordings of a layout with a folder for each, and sentences on other files.

    Raises DataError where there is none, or a recording lacks a sensor that others have.
    """
    found: dict[Path, dict[str, Path]] = {}
    others = list[str]()
    for path in files:
        sensor = layout.sensor_of(path)
        if sensor is None or layout.is_left_out(path):
            others.append(path.name)
            continue
        own = found.setdefault(path.parent, {})
        if sensor.name in own:
            raise DataError(
                f"{path}: got a second file of sensor {sensor.name} beside {own[sensor.name]}, "
                "expected one in a recording's folder. Give each recording a folder"
            )
        own[sensor.name] = path
    if not found:
        patterns = [pattern for sensor in layout.sensors for pattern in sensor.files]
        raise DataError(
            f"{files[0].parent}: got no file of {layout.title}, expected {listed(patterns, 5)}. "
            f"Check {spelt('layout')}"
        )
    notes = []
    if others:
        notes.append(
            f"Left out, as they are no signals of {layout.title}: "
            f"{listed(dict.fromkeys(others), 8)}."
        )
    sensors, more = _used(found, layout.sensors, options)
    return Grouped(sensors, found), [*notes, *more]


def _used(
    found: dict[Path, dict[str, Path]], sensors: Sequence[SensorLayout], options: ImportOptions
) -> tuple[tuple[SensorLayout, ...], list[str]]:
    """Return the sensors that are used, and sentences on others; raise where a recording lacks one.

    Files without rows are taken out of `found`.
    """
    by_name = {sensor.name: sensor for sensor in sensors}
    if wrong := [name for name in options.named_sensors if name not in by_name]:
        raise DataError(f"sensors: got {wrong[0]!r}.{nearest(wrong[0], by_name, 'Sensors')}")
    empty: dict[str, list[Path]] = {}
    for own in found.values():
        for name in [name for name, path in own.items() if not has_rows(path, by_name[name])]:
            empty.setdefault(name, []).append(own.pop(name))
    there = [name for name in by_name if any(name in own for own in found.values())]
    asked = options.named_sensors or [name for name in there if not by_name[name].optional]
    for name in asked:
        lacking = [recording for recording, own in found.items() if name not in own]
        if lacking and (options.named_sensors or len(lacking) < len(found)):
            why = (
                "an empty file"
                if lacking[0] in {p.parent for p in empty.get(name, [])}
                else "no file"
            )
            whole = [n for n in asked if all(n in own for own in found.values())]
            way = (
                f"{spelt('sensors', ','.join(whole))} takes what all have, or leave"
                if whole
                else "Leave"
            )
            raise DataError(
                f"{lacking[0]}: got {why} of sensor {name!r}, expected one as in the other "
                f"{len(found) - len(lacking)} recordings ({len(lacking)} lack it). {way} the "
                "recording out"
            )
    if not asked:
        raise DataError(f"{next(iter(found))}: got no rows of {', '.join(by_name)}, expected some")
    notes = [f"Left out, as its files are empty: {name}." for name in empty if name not in there]
    if rest := [name for name in there if name not in asked and not options.named_sensors]:
        notes.append(f"Left out unless {spelt('sensors')} names it: {', '.join(rest)}.")
    return tuple(by_name[name] for name in by_name if name in asked), notes


def grouped_by_name(
    files: Sequence[Path], values: Mapping[str, Sequence[str]], options: ImportOptions
) -> Grouped | None:
    """Return recordings whose sensors the files' names tell; None where no recording has several.

    `values`: a text for each file, by group of the pattern.

    Raises DataError where a recording lacks a sensor that others have, or has two files of one.
    """
    if "sensor" not in values:
        return None
    names = list(dict.fromkeys(values["sensor"]))
    own_names = (options.time, options.label)
    found: dict[tuple[str, ...], dict[str, Path]] = {}
    for i, path in enumerate(files):
        key = (
            str(path.parent),
            *(values[g][i] for g in NAME_GROUPS if g in values and g != "sensor"),
        )
        own = found.setdefault(key, {})
        if values["sensor"][i] in own:
            return None  # nothing tells its recordings apart
        own[values["sensor"][i]] = path
    if max(map(len, found.values())) < 2:
        return None
    sensors = [
        SensorLayout(name, (f"*{name}*",), kept=tuple(filter(None, own_names))) for name in names
    ]
    named = {next(iter(own.values())): own for own in found.values()}
    used, _ = _used(named, sensors, options)
    return Grouped(used, named)
