"""The source of recordings as a logger wrote them, by a layout or by files of several sensors."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from fedsub_core.errors import ConfigError, DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.files import people_of
from fedsub_data.importing.joined_source import JoinedSource
from fedsub_data.importing.layout import FILE, read_layout
from fedsub_data.importing.layout_files import (
    Grouped,
    grouped,
    grouped_by_name,
    guessed_layout,
)
from fedsub_data.importing.layout_table import LayoutTable
from fedsub_data.importing.name_guess import guessed_pattern
from fedsub_data.importing.names import Names, named, names_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import OpenSource

#: Least memory of one sensor's database, MB.
_LEAST_MB = 64


def layout_source(
    files: Sequence[Path], options: ImportOptions, folder: Path | None
) -> OpenSource | None:
    """Return the source of files that have a layout, or several sensors; None for other files.

    `folder`: of unpacked files, to be removed at the end.

    Raises DataError or ConfigError where files are not as the layout has them.
    """
    found, notes = _grouped(files, options)
    if found is None:
        return None
    source: OpenSource
    if found.of_one_file:
        (sensor,), paths = found.sensors, list(found.files)
        source = LayoutTable(paths, options, sensor, folder=folder)
    else:
        source = _joined(found, options, folder)
    source.notes[:0] = notes
    return source


def layout_recordings(
    files: Sequence[Path], channels: Sequence[str], options: ImportOptions
) -> JoinedSource | None:
    """Return recordings of nobody known, each as a person of its own; None for other files.

    `channels`: the columns that are read.

    Raises DataError or ConfigError as :func:`layout_source`, and where a channel is missing.
    """
    found, notes = _grouped(files, options)
    if found is None:
        return None
    paths, own = list(found.files), replace(options, features=",".join(channels))
    with ExitStack() as stack:
        owners = [f"r{i}" for i, _ in enumerate(paths)]
        tables = _tables(stack, found, paths, owners, False, options, None)
        there = [name for table in tables.values() for name in table.features]
        if lacking := [name for name in channels if name not in there]:
            raise DataError(
                f"{paths[0]}: got columns {', '.join(there)}, expected {', '.join(lacking)}, too, "
                "which the model was trained on. Put the sensor's file beside the others"
            )
        source = JoinedSource(tables, paths, owners, None, own)
        stack.pop_all()
    source.notes[:0] = notes
    return source


def _grouped(files: Sequence[Path], options: ImportOptions) -> tuple[Grouped | None, list[str]]:
    """Return the recordings of a layout, or of sensors by the files' names, and sentences."""
    layout, notes = (
        (read_layout(options.layout), list[str]())
        if options.layout
        else guessed_layout(files, options)
    )
    if layout is None:
        pattern = options.from_name or guessed_pattern(files)[0]
        values = named(files, pattern) if "(?P<sensor>" in pattern else {}
        groups = grouped_by_name(files, values, options)
        quoted = spelt("from-name", f"'{pattern}'")
        if groups is not None and not options.from_name:
            notes = [*notes, f"Guessed: sensors by the files' names, {quoted}."]
        return groups, notes
    if layout.recording == FILE:
        (sensor,) = layout.sensors
        own = [path for path in files if not layout.is_left_out(path)] or files
        return Grouped((sensor,), {path: {sensor.name: path} for path in own}, True), notes
    groups, more = grouped(files, layout, options)
    return groups, [*notes, *more]


def _joined(groups: Grouped, options: ImportOptions, folder: Path | None) -> JoinedSource:
    """Return the source of recordings whose sensors are joined."""
    if options.subject or options.recording:
        key = "subject" if options.subject else "recording"
        raise ConfigError(
            f"{key}: got a column, where sensors are joined; expected it in the names of "
            f"recordings. Say it with {spelt('from-name')}"
        )
    paths = list(groups.files)
    names = names_of(paths, options)
    owners, notes = _owners(paths, names)
    first = {owner: i for i, owner in reversed(list(enumerate(owners)))}
    order = sorted(range(len(paths)), key=lambda i: first[owners[i]])
    paths, owners = [paths[i] for i in order], [owners[i] for i in order]
    by_name = "label" in names.asked_groups
    with ExitStack() as stack:
        tables = _tables(stack, groups, paths, owners, not by_name, options, folder)
        classes = None
        if not options.intervals and not any(table.labels for table in tables.values()):
            classes = _classes(paths, names, order, tables)
            notes += names.guessed({"subject", "label", "recording"})
        elif not by_name:
            notes += names.guessed({"subject", "recording"})
        source = JoinedSource(tables, paths, owners, classes, options)
        stack.pop_all()
    source.notes += notes
    return source


def _tables(
    stack: ExitStack,
    groups: Grouped,
    paths: Sequence[Path],
    owners: Sequence[str],
    labelled: bool,
    options: ImportOptions,
    folder: Path | None,
) -> dict[str, LayoutTable]:
    """Return the table of each sensor, open on `stack`; the first one removes the `folder`."""
    own = replace(
        options,
        subject="",
        from_name="(.*)",
        recording="",
        features="",
        memory=_memory(options, groups),
    )
    tables = dict[str, LayoutTable]()
    for sensor in groups.sensors:
        mine = [groups.files[path][sensor.name] for path in paths]
        table = LayoutTable(mine, own, sensor, owners, labelled, None if tables else folder)
        tables[sensor.name] = stack.enter_context(closing(table))
    return tables


def _owners(paths: Sequence[Path], names: Names) -> tuple[list[str], list[str]]:
    """Return the person of each recording, and a sentence on the guess."""
    if "subject" in names.values:
        return list(names.values["subject"]), []
    return people_of(paths), ["Guessed: each recording is a person, with the recording's name."]


def _classes(
    paths: Sequence[Path], names: Names, order: Sequence[int], tables: Mapping[str, LayoutTable]
) -> list[str]:
    """Return the class of each recording by its name; raise where neither name nor column says."""
    if "label" not in names.values:
        raise DataError(
            f"{paths[0]}: got sensors {', '.join(tables)} without a column of classes, expected "
            f"classes. Give {spelt('intervals', 'FILE')}, the column with {spelt('label')}, or "
            f"say where the class stands in recordings' names, as {paths[0].name}: "
            f"{spelt('from-name')} '(?P<subject>[a-z]+)_(?P<label>[a-z]+)'"
        )
    if "subject" not in names.values:
        raise DataError(
            f"{paths[0]}: got the class by the recordings' names, and no person; expected both. "
            f"{spelt('from-name')} says where the person stands"
        )
    return [names.values["label"][i] for i in order]


def _memory(options: ImportOptions, groups: Grouped) -> str:
    """Return the share of memory of each sensor's database."""
    number, unit = re.findall(r"\d+|[MG]B", options.memory)
    megabytes = int(number) * (1000 if unit == "GB" else 1)
    return f"{max(_LEAST_MB, megabytes // len(groups.sensors))}MB"
