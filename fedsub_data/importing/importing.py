"""From a source of rows to a federation: surveyed once, then cleaned and cut person by person."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedsub_core.data.card import CARD_FILE, Card, card_table, check_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client
from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_core.extras import require
from fedsub_core.files import check_new_folder, whole_folder
from fedsub_core.options import option_values
from fedsub_core.spelling import spelt
from fedsub_data.importing.at_once import AtOnce
from fedsub_data.importing.cleaning import cleaned, without_labels
from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.files import MAT, NUMPY, TEXT, TS, ZIP, ending, find_files, kind_of
from fedsub_data.importing.first_rows import FirstRows
from fedsub_data.importing.interval_owners import without_intervals
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.plan import Plan, plan
from fedsub_data.importing.recordings import in_time, repeated
from fedsub_data.importing.source import OpenSource, Rows, Source
from fedsub_data.importing.windowing import GAP_STEPS, Cut, windows
from fedsub_data.importing.zips import without_zips
from fedsub_data.preparing.preparation import REPORT_FILE, Progress


@dataclass
class Imported:
    """The outcome of an import.

    Parameters
    ----------
    card : the federation's.
    notes : what was guessed, renamed or passed over, in sentences.
    people, samples : how many it holds.
    dropped : what was left out, and why, by person; and what was resampled.
    """

    card: Card
    notes: tuple[str, ...]
    people: int = 0
    samples: int = 0
    dropped: Dropped = field(default_factory=Dropped)

    def report(self, options: ImportOptions, sources: Sequence[str]) -> str:
        """Return the federation's record of where it comes from, as JSON."""
        record = {
            "from": list(sources),
            "made by": "import",
            "options": option_values(options),
            "notes": list(self.notes),
            "counts": {"people": self.people, "samples": self.samples},
            "dropped": self.dropped.table(),
            "resampled": self.dropped.resampled.by_person(),
        }
        return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def open_source(patterns: Sequence[str], options: ImportOptions) -> OpenSource:
    """Return the source of the files that are meant; to be closed.

    Raises
    ------
    DataError, ConfigError
        Where there are none, they cannot be read, or what reads them is not installed.
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
        source.notes[:0] = notes
        return source
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def import_files(
    patterns: Sequence[str], folder: Path, options: ImportOptions, progress: Progress
) -> Imported:
    """Write the federation in `folder` that the files hold, completely or not at all.

    Parameters
    ----------
    patterns : files, folders, or patterns such as ``data/*.csv``.
    progress : told how many people are done, of how many.

    Raises
    ------
    DataError, ConfigError
        Where something is not as expected; it names file, line and column, and the option.
    """
    check_new_folder(folder, DataError)
    with closing(open_source(patterns, options)) as source:
        planned = plan(source, options, options.name or folder.resolve().name)
        check_card(planned.card, folder / CARD_FILE)
        dropped = Dropped(options=options, signal=planned.cut is not None)
        made = Imported(planned.card, planned.notes, dropped=dropped)
        with whole_folder(folder, DataError) as draft:
            (draft / "clients").mkdir()
            for data in _clients(options, planned, made, progress):
                with open(draft / "clients" / f"{data.client}.npz", "wb") as file:
                    # Not compressed, which would take longer than all the rest.
                    np.savez(file, **data.arrays())  # type: ignore[arg-type]
            (draft / CARD_FILE).write_text(tomli_w.dumps(card_table(made.card)), "utf-8")
            (draft / REPORT_FILE).write_text(made.report(options, patterns), "utf-8")
    return made


def in_memory(source: Source, options: ImportOptions, name: str) -> tuple[Federation, Imported]:
    """Return the federation that a source holds, without any folder; raises as above."""
    planned = plan(source, options, options.name or name)
    check_card(planned.card, Path(name, CARD_FILE))
    dropped = Dropped(options=options, signal=planned.cut is not None)
    made = Imported(planned.card, planned.notes, dropped=dropped)
    clients = _clients(options, planned, made, lambda done, total: None)
    return Federation(made.card, {data.client: data for data in clients}), made


def _clients(
    options: ImportOptions, planned: Plan, made: Imported, progress: Progress
) -> Iterator[ClientData]:
    """Yield everybody who has samples enough, checked; `made` gains the counts.

    Raises
    ------
    DataError
        Where nobody is left.
    """
    source = planned.source
    for key, count in source.lost().items():
        made.dropped.add(key, "", count)
    cut = planned.cut
    at_once = AtOnce(source, options, cut.length / cut.rate if cut else 0.0)
    for done, rows in enumerate(source.rows(), start=1):
        data = _client(rows, source, options, planned, made.dropped, at_once)
        if len(data.y) < options.fewest:
            made.dropped.add(Why.FEW, data.client, 1)
        else:
            path = Path(planned.card.name, "clients", f"{data.client}.npz")
            yield check_client(path, data.client, data.arrays(), planned.card)
            made.people += 1
            made.samples += len(data.y)
        progress(done, len(source.people))
    if Why.FEW in made.dropped.counts:
        made.notes += _seconds_meant(options, planned.cut)
    made.notes += at_once.notes()
    if not made.people:
        lines = " ".join((*_seconds_meant(options, planned.cut), *made.dropped.sentences()))
        raise DataError(f"{planned.card.name}: got nobody with samples enough. {lines}")


def _client(
    rows: Rows,
    source: Source,
    options: ImportOptions,
    planned: Plan,
    dropped: Dropped,
    at_once: AtOnce,
) -> ClientData:
    """Return one person's samples."""
    cut, rows = planned.cut, planned.conversion.converted(rows)
    if cut is not None:
        rows = FirstRows(source, options).without(rows, dropped)
    if cut is not None and rows.t is None:
        rows = rows.at(_counted(rows, cut) / cut.rate)
    rows = cleaned(rows, source, options, dropped)
    if cut is None:
        rows = repeated(without_labels(rows, dropped), source, options, dropped)
        t = None if rows.t is None else rows.t * planned.tick
        return ClientData(rows.person, rows.x, rows.y, t)
    recordings = []
    for recording in in_time(rows, source, options):
        kept = repeated(recording, source, options, dropped)
        recordings.append(kept.at(kept.times * planned.tick))
    placed, aligned = at_once.placed(recordings)
    fill = options.missing == "interpolate"
    cut_windows = windows(placed, cut, fill, rows.person, dropped, aligned)
    return ClientData(rows.person, cut_windows.x, cut_windows.y, cut_windows.t)


def _seconds_meant(options: ImportOptions, cut: Cut | None) -> tuple[str, ...]:
    """Return a sentence on a window's length where it was given as a number alone, else none."""
    if cut is None or not re.fullmatch(r"\s*[\d.]+\s*", options.window):
        return ()
    length = float(options.window)
    return (
        f"{spelt('window', f'{length:g}')} means {length:g} s; {length:g} samples at {cut.rate:g} "
        f"Hz are {spelt('window', f'{length / cut.rate:.4g}s')}.",
    )


def _counted(rows: Rows, cut: Cut) -> NDArray[np.float64]:
    """Return the number of each row among the person's in its file: all that is known of time.

    Where rows of others stand between two, as in a table that is sorted by activity, there is a
    pause; people whose rows take turns have none.
    """
    steps = np.diff(rows.row, prepend=rows.row[:1])
    new = np.diff(rows.file, prepend=rows.file[:1]) != 0
    usual = np.median(steps[~new][1:]) if len(steps) - new.sum() > 1 else 1.0
    apart = (steps > GAP_STEPS * usual) & ~new
    pause = 1 + max(GAP_STEPS, (cut.gap_s or 0.0) * cut.rate)
    counted = np.cumsum(np.where(apart, pause, 1.0))
    first = np.searchsorted(rows.file, rows.file)  # a person's rows stand in the order of files
    return np.asarray(counted - counted[first], np.float64)
