"""From a source of rows to a federation: surveyed once, then cleaned and cut person by person."""

import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import tomli_w

from fedsub_core.data.card import CARD_FILE, card_table, check_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError, DataError, cut, listed
from fedsub_core.extras import require
from fedsub_core.files import check_new_folder, whole_folder
from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Dropped
from fedsub_data.importing.files import MAT, NUMPY, TEXT, TS, ZIP, ending, find_files, kind_of
from fedsub_data.importing.interval_owners import without_intervals
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.plan import Plan, plan
from fedsub_data.importing.samples import UNLABELLED, Imported, Person, samples_of
from fedsub_data.importing.source import OpenSource, Source
from fedsub_data.importing.target_values import with_target
from fedsub_data.preparing.preparation import REPORT_FILE, Progress
from fedsub_data.preparing.unpacking import DAMAGED, opened_zip


def open_source(patterns: Sequence[str], options: ImportOptions) -> OpenSource:
    """Return the source of the files that are meant; to be closed.

    Raises DataError or ConfigError where there are none, they cannot be read, or what reads them is
    not installed.
    """
    files, notes = find_files(patterns), list[str]()
    folder = None
    try:
        if any(ending(path) == ZIP for path in files):
            folder = Path(tempfile.mkdtemp(prefix="fedsub-zip-"))
            files, notes = without_zips(files, folder)
        files = without_intervals(files, options.intervals)
        if not files:
            raise DataError(f"{', '.join(patterns)}: got intervals alone, expected recordings, too")
        kind = kind_of(files)
        source: OpenSource
        if kind in (TS, NUMPY, MAT):
            from fedsub_data.importing.array_files import array_files

            source = array_files(files, kind, options)
        else:
            require("reading tables", "duckdb")
            from fedsub_data.importing.layout_source import layout_source
            from fedsub_data.importing.tables import TableSource

            made = layout_source(files, options, folder) if kind == TEXT else None
            source = made or TableSource(files, options, folder)
            folder = None  # the source removes it
        if options.part and getattr(source, "part_of", None) is None:
            source.close()
            raise _no_parts(options)
        source.notes[:0] = notes
        return source
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _no_parts(options: ImportOptions) -> ConfigError:
    return ConfigError(
        f"part: got {options.part!r} for data that are no tables, expected CSV, TSV or Parquet. "
        "Import them without it; `fedsub data parts` takes a file with the part of each sample"
    )


def import_files(
    patterns: Sequence[str], folder: Path, options: ImportOptions, progress: Progress
) -> Imported:
    """Write the federation in `folder` that the files hold, completely or not at all.

    Parameters
    ----------
    patterns : files, folders, or patterns such as ``data/*.csv``.
    progress : told how many people are done, of how many.

    Raises DataError or ConfigError where something is not as expected; it names file, line and
    column, and the option.
    """
    check_new_folder(folder, DataError)
    with closing(open_source(patterns, options)) as source:
        planned = with_target(plan(source, options, options.name or folder.resolve().name), options)
        made = begun(planned, options)
        check_card(planned.card, folder / CARD_FILE)
        with whole_folder(folder, DataError) as draft:
            for person in samples_of(options, planned, made, progress):
                for data, place in placed(person, draft):
                    write_client(place, data.client, data.arrays(), place != draft)
            write_cards(draft, made)
            write_record(draft, made.record(options, patterns))
    return made


def begun(planned: Plan, options: ImportOptions) -> Imported:
    """Return the outcome of an import that has written nobody yet."""
    dropped = Dropped(options=options, signal=planned.cut is not None)
    return Imported(planned.card, planned.notes, dropped=dropped)


def placed(person: Person, folder: Path) -> list[tuple[ClientData, Path]]:
    """Return a person's samples, and the federation's folder that each part goes to."""
    both = ((person.labelled, folder), (person.unlabelled, folder / UNLABELLED))
    return [(data, place) for data, place in both if data is not None]


def write_client(
    folder: Path, client: str, arrays: Mapping[str, Any], unlabelled: bool = False
) -> None:
    """Write a client's arrays into a federation's folder; `unlabelled` ones without ``y``."""
    (folder / "clients").mkdir(parents=True, exist_ok=True)
    kept = {name: one for name, one in arrays.items() if not (unlabelled and name == "y")}
    # Nobody is overwritten on a disk that takes `anna` and `Anna` for one name.
    with open(folder / "clients" / f"{client}.npz", "xb") as file:
        # Not compressed, which would take longer than all the rest.
        np.savez(file, **kept)


def write_cards(folder: Path, made: Imported) -> None:
    """Write the card of a federation's folder, and of that of its samples without a label."""
    for place in (folder, folder / UNLABELLED):
        if (place / "clients").is_dir():
            (place / CARD_FILE).write_text(tomli_w.dumps(card_table(made.card)), "utf-8")


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write a federation's record of where it comes from."""
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    (folder / REPORT_FILE).write_text(text, "utf-8")


def in_memory(source: Source, options: ImportOptions, name: str) -> tuple[Federation, Imported]:
    """Return the federation that a source holds, without any folder; raises as above."""
    if options.unlabelled == "keep":
        raise ConfigError(
            "unlabelled: got keep for data in memory, expected drop or stop: a federation in "
            f"memory has labels. `fedsub data import FILES {spelt('unlabelled', 'keep')}` keeps "
            "samples without labels in a folder"
        )
    if options.part:
        raise _no_parts(options)
    planned = with_target(plan(source, options, options.name or name), options)
    check_card(planned.card, Path(name, CARD_FILE))
    made = begun(planned, options)
    people = samples_of(options, planned, made, lambda done, total: None)
    clients = {one.client: one.labelled for one in people if one.labelled is not None}
    return Federation(planned.card, clients), made


def without_zips(files: Sequence[Path], folder: Path) -> tuple[list[Path], list[str]]:
    """Return the files with those in zips in their place, and what of zips is left out.

    `folder`: where zips are unpacked, each into a folder of its name.

    Raises DataError where a zip is damaged, holds nothing that is read, or is too large when
    unpacked.
    """
    made, notes = list[Path](), list[str]()
    for number, path in enumerate(files):
        if ending(path) != ZIP:
            made.append(path)
            continue
        try:
            own, others = _unpacked(path, folder / str(number) / path.name)
        except DAMAGED as error:
            raise DataError(f"{path}: cannot be read ({cut(error)}). Check the file") from error
        if not own:
            raise DataError(
                f"{path}: got {listed(others, 5) or 'no files'}, expected tables. Unpack it "
                "yourself and import what is in it"
            )
        made += own
        if others:
            notes.append(f"Left out, as they are no tables: {listed(others, 5)} in {path}.")
    return made, notes


def _unpacked(path: Path, folder: Path) -> tuple[list[Path], list[str]]:
    """Return the unpacked files of one zip in the order of their names, and names of others."""
    made, others = list[Path](), list[str]()
    with opened_zip(path, path, path.stat().st_size) as archive:
        for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
            name = PurePosixPath(entry.filename)
            if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
                raise DataError(f"{path}: got a file {entry.filename!r} outside it, expected none")
            hidden = any(part[0] == "." or part == "__MACOSX" for part in name.parts)
            if entry.is_dir() or hidden:
                continue
            if ending(Path(name)) in (None, ZIP):
                others.append(entry.filename)
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with archive.open(entry) as packed, open(target, "xb") as file:
                    shutil.copyfileobj(packed, file)
            except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                raise DataError(
                    f"{path}: {entry.filename} cannot be read ({cut(error)}). Unpack it yourself"
                ) from error
            made.append(target)
    return made, others
