"""Each person's rows as samples of a federation, and what an import did with everybody's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client
from fedsub_core.data.target import no_label
from fedsub_core.errors import DataError
from fedsub_core.options import option_values
from fedsub_core.spelling import spelt
from fedsub_data.importing.at_once import AtOnce
from fedsub_data.importing.cleaning import cleaned, without_labels
from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.first_rows import FirstRows
from fedsub_data.importing.grouping import Grouping
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.parts import parts_of
from fedsub_data.importing.plan import Plan
from fedsub_data.importing.recordings import in_time, repeated
from fedsub_data.importing.source import Rows
from fedsub_data.importing.target_values import labelled
from fedsub_data.importing.windowing import GAP_STEPS, Cut, Kept, windows
from fedsub_data.preparing.preparation import Progress

#: The folder beside ``clients`` with the samples that have no label: a federation of its own.
UNLABELLED = "unlabelled"


@dataclass
class Imported:
    """The outcome of an import.

    Parameters
    ----------
    card : the federation's.
    notes : what was guessed, renamed or passed over, in sentences.
    people, samples : how many it holds.
    dropped : what was left out, and why, by person; and what was resampled.
    unlabelled : how many samples without a label are kept, by person.
    """

    card: Card
    notes: tuple[str, ...]
    people: int = 0
    samples: int = 0
    dropped: Dropped = field(default_factory=Dropped)
    unlabelled: dict[str, int] = field(default_factory=dict)

    def without_labels(self) -> tuple[str, ...]:
        """Return a sentence on the samples without a label that are kept; () without any."""
        if not self.unlabelled:
            return ()
        count = sum(self.unlabelled.values())
        return (
            f"Kept without a label: {count:,} samples of {len(self.unlabelled)} people, in the "
            f"folder {UNLABELLED!r} beside 'clients': a federation for `fedsub adapt`.",
        )

    def record(self, options: ImportOptions, sources: Sequence[str]) -> dict[str, Any]:
        """Return the federation's record of where it comes from, as JSON has it."""
        return {
            "from": list(sources),
            "made by": "import",
            "options": option_values(options),
            "notes": list(self.notes),
            "counts": {"people": self.people, "samples": self.samples},
            **({"unlabelled": self.unlabelled} if self.unlabelled else {}),
            "dropped": self.dropped.table(),
            "resampled": self.dropped.resampled.by_person(),
        }


@dataclass(frozen=True, eq=False)
class Person:
    """One person's samples: those with a label, None where they are too few, and those without.

    The labels of those without are all 0, or the low end of a target, and mean nothing.
    """

    client: str
    labelled: ClientData | None
    unlabelled: ClientData | None = None


def samples_of(
    options: ImportOptions, planned: Plan, made: Imported, progress: Progress
) -> Iterator[Person]:
    """Yield everybody who has samples enough, or some without labels; `made` gains the counts.

    Raises DataError where nobody is left.
    """
    source = planned.source
    for key, count in source.lost().items():
        made.dropped.add(key, "", count)
    cut = planned.cut
    at_once = AtOnce(source, options, cut.length / cut.rate if cut else 0.0)
    grouping = Grouping(options)
    for done, rows in enumerate(source.rows(), start=1):
        person = _checked(_client(rows, options, planned, made.dropped, (at_once, grouping)), made)
        if person.labelled is None:
            made.dropped.add(Why.FEW, person.client, 1)
        if person.labelled is not None or person.unlabelled is not None:
            yield person
        progress(done, len(source.people))
    if Why.FEW in made.dropped.counts:
        made.notes += _seconds_meant(options, planned.cut)
    made.notes += (*at_once.notes(), *grouping.notes(), *made.without_labels())
    if options.part:
        made.notes += ("Each sample has a part. A run goes by them with split = given.",)
    if not made.people:
        lines = " ".join((*_seconds_meant(options, planned.cut), *made.dropped.sentences()))
        raise DataError(f"{planned.card.name}: got nobody with samples enough. {lines}")


def _checked(data: ClientData, made: Imported) -> Person:
    """Return a person's samples as they enter a federation; those without a label apart."""
    path = Path(made.card.name, "clients", f"{data.client}.npz")
    target = made.card.target
    none = data.y < 0 if target is None else np.isnan(data.y)
    parts = list[ClientData | None]()
    for rows, fewest in ((~none, made.dropped.options.fewest), (none, 1)):
        part = data if rows.all() else data.part(np.flatnonzero(rows))
        if len(part.y) < fewest:
            parts.append(None)
            continue
        arrays = part.arrays() | {"y": np.where(none[rows], no_label(target), part.y)}
        parts.append(check_client(path, data.client, arrays, made.card))
    labelled, unlabelled = parts
    if labelled is not None:
        made.people += 1
        made.samples += len(labelled.y)
    if unlabelled is not None:
        made.unlabelled[data.client] = len(unlabelled.y)
    return Person(data.client, labelled, unlabelled)


def _client(
    rows: Rows,
    options: ImportOptions,
    planned: Plan,
    dropped: Dropped,
    together: tuple[AtOnce, Grouping],
) -> ClientData:
    """Return one person's samples."""
    (at_once, grouping), source = together, planned.source
    cut, rows = planned.cut, planned.conversion.converted(rows)
    if cut is not None:
        rows = FirstRows(source, options).without(rows, dropped)
    if cut is not None and rows.t is None:
        rows = rows.at(_counted(rows, cut) / cut.rate)
    rows = cleaned(rows, source, options, dropped)
    if cut is None:
        rows = rows if options.unlabelled == "keep" else without_labels(rows, dropped)
        rows = repeated(rows, source, options, dropped)
        rows = rows if rows.t is None else rows.at(rows.t * planned.tick)
        parts = parts_of(source, rows.file)
        group = grouping.of_rows(rows)
        y = labelled(rows.person, rows.y, planned)
        return ClientData(rows.person, rows.x, y, rows.t, group=group, parts=parts)
    recordings = []
    for recording in in_time(rows, source, options):
        kept = repeated(recording, source, options, dropped)
        recordings.append(kept.at(kept.times * planned.tick))
    placed = at_once.placed(recordings)
    for recording in placed.recordings:
        labelled(rows.person, recording.y, planned)  # which refuses values beyond the range
    how = Kept(options.missing == "interpolate", options.unlabelled == "keep", planned.values)
    own = windows(placed.recordings, cut, how, rows.person, dropped, placed.aligned)
    group = grouping.of_windows(own.t, own.recording, placed)
    files = np.array([one.file[0] for one in placed.recordings], np.int64)
    parts = parts_of(source, files[own.recording]) if len(own.t) else None
    return ClientData(rows.person, own.x, own.y, own.t, group=group, parts=parts)


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
