"""What an import makes of its rows, decided by a survey of all of them: units, rate, windows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.errors import ConfigError
from fedsub_core.spelling import spelt
from fedsub_data.importing.clocks import Clock, check_clocks, clock_of
from fedsub_data.importing.converting import Conversion, Units
from fedsub_data.importing.dates import UnreadTimes
from fedsub_data.importing.devices import SameTimes
from fedsub_data.importing.dropped import Dropped
from fedsub_data.importing.first_rows import FirstRows
from fedsub_data.importing.giveaways import Giveaways
from fedsub_data.importing.intervals import with_intervals
from fedsub_data.importing.labels import check_labels
from fedsub_data.importing.options import NONE, ImportOptions
from fedsub_data.importing.people import check_people_and_classes
from fedsub_data.importing.recordings import NewestFirst
from fedsub_data.importing.rising import RisingFeatures
from fedsub_data.importing.sensors import axes
from fedsub_data.importing.source import Source, There
from fedsub_data.importing.sparse_columns import SparseColumns
from fedsub_data.importing.time_unit import check_rate, tick_seconds
from fedsub_data.importing.unit_rows import units_in_words
from fedsub_data.importing.windowing import Cut

#: The papers' window of raw signals, s.
WINDOW_S = 2.56
#: A rate so near to a whole number, relatively, is that one.
_WHOLE = 0.01


@dataclass(frozen=True)
class Plan:
    """The plan of an import: its card, its windows, its rows.

    Parameters
    ----------
    tick : seconds of one unit of the source's time.
    cut : how windows are cut; None: each row is a sample, or a window already.
    notes : what was guessed, in sentences.
    source : of the rows, without columns that are no features.
    conversion : of people whose units differ.
    own_rate : rows a second, the median over people; None where no time says it.
    values : of a target, by code of the source's labels; the last is that of none, NaN. None of
        classes.
    """

    card: Card
    tick: float
    cut: Cut | None
    notes: tuple[str, ...]
    source: Source
    conversion: Conversion
    own_rate: float | None = None
    values: NDArray[np.float64] | None = None


def plan(source: Source, options: ImportOptions, name: str, there: There | None = None) -> Plan:
    """Go through the source once; return what is made of its rows.

    Where they are added to a federation, units are held against its own, and one class is enough.

    Raises DataError or ConfigError where people's units differ, nothing says a rate, time cannot be
    read, or options do not fit the rows.
    """
    source = with_intervals(source, options)
    check_people_and_classes(source, options, name, 2 if there is None else 1)
    measured = check_labels(source.labels, options, name)
    survey = _survey(source, options, name, there)
    source, conversion = survey.source, survey.conversion
    clocks, whole = survey.clocks, survey.points > 0
    signal = not whole and _windowed(source, options)
    if signal:
        survey.newest_first.check()
    rated = options.rate and (signal or whole)
    between = (survey.points or 1) / options.rate if rated else None
    timed = f"{source.time or ''} {source.units.get(source.time or '', '')}".strip()
    tick, guess = tick_seconds(clocks, timed, source.ticks, options, between, signal)
    notes = [*source.notes, *measured, *([guess] if guess else []), *conversion.notes]
    notes += survey.same_times.notes(tick)
    notes += survey.sparse.check(tick, (between or _step(clocks, tick)) if signal else None)
    notes += survey.first_rows.notes()
    cut = None
    if signal:
        cut = _cut(clocks, tick, source, options, notes)
    elif options.missing == "interpolate":
        raise ConfigError(
            "missing: got interpolate where rows are samples, expected drop or stop: only signals "
            "in time have rows around a missing one"
        )
    rate = cut.rate if cut else options.rate if whole and options.rate else None
    if not cut and not (source.time and rate):
        notes.append(
            'Whether samples overlap is not known, so the card says: overlap = "unknown". A run '
            "then tests the last samples of each class. If none repeats a part of another's "
            "signal, write overlap = 0 into federation.toml."
        )
    card = Card(
        name,
        options.task,
        source.labels,
        source.features,
        options.units or units_in_words(source.units, source.features),
        sampling_rate_hz=rate,
        window_s=cut.length / cut.rate if cut else None,
        overlap=1 - cut.step / cut.length if cut else None,
        sensors=axes(source.features) if cut or survey.points else None,
        groups=options.groups,
    )
    step = _step(clocks, tick, options.duplicates == "keep") if signal else None
    return Plan(card, tick, cut, tuple(notes), source, conversion, 1 / step if step else None)


@dataclass(frozen=True)
class _Survey:
    """The survey of all rows, made in one pass.

    Parameters
    ----------
    clocks : by person.
    points : of a window; 0 where rows are points themselves.
    source : of the rows, without columns that are no features.
    sparse, newest_first, same_times, first_rows : what they found, to be checked or told.
    """

    clocks: Mapping[str, Clock]
    points: int
    source: Source
    conversion: Conversion
    sparse: SparseColumns
    newest_first: NewestFirst
    same_times: SameTimes
    first_rows: FirstRows


def _survey(source: Source, options: ImportOptions, name: str, there: There | None) -> _Survey:
    """Return the survey; raises DataError where rows are found that no option lets pass."""
    rising, unread = RisingFeatures(source), UnreadTimes(source, options)
    sparse, newest_first = SparseColumns(source, options), NewestFirst(source, options)
    same_times, first_rows = SameTimes(options), FirstRows(source, options)
    giveaways, units = Giveaways(source, options), Units(source, options)
    clocks, points = dict[str, Clock](), 0
    for rows in source.rows():
        if _windowed(source, options):
            rows = first_rows.without(rows, Dropped())
        clocks[rows.person] = clock_of(rows, options.backwards == "sort")
        for check in (rising, sparse, unread, newest_first, same_times, giveaways, units):
            check.add(rows)
        points = rows.x.shape[2] if rows.x.ndim == 3 else 0
    for rows in there.rows(source) if there else ():
        units.add(rows)
    unread.check()
    rising.check(name)
    check_clocks(clocks, options, source.time)
    narrowed = giveaways.without(name)
    conversion = units.check(narrowed.at if narrowed else None)
    if narrowed:
        source, conversion = narrowed, conversion.at(narrowed.at)
    return _Survey(clocks, points, source, conversion, sparse, newest_first, same_times, first_rows)


def _windowed(source: Source, options: ImportOptions) -> bool:
    """Return whether rows are a signal that is cut into windows."""
    if options.window == NONE:
        return False
    return options.window_s is not None or source.time is not None or options.rate > 0


def _cut(
    clocks: Mapping[str, Clock],
    tick: float,
    source: Source,
    options: ImportOptions,
    notes: list[str],
) -> Cut:
    window_s = options.window_s or WINDOW_S
    if options.window_s is None:
        notes.append(f"Guessed: {spelt('window', f'{window_s:g}s')}, as there are times.")
    rate = options.rate
    if not rate:
        rate = _rate(clocks, tick, source, options)
        notes.append(f"Guessed: {spelt('rate', f'{rate:g}')}, the median over people.")
    length = round(window_s * rate)
    if length < 2:
        raise ConfigError(
            f"window: got {window_s:g} s of {rate:g} samples a second, expected two samples at "
            f"least. Give a longer {spelt('window')}, or {spelt('window', 'none')}, which takes "
            "each row as a sample"
        )
    step = max(1, round(length * (1 - options.overlap)))
    return Cut(rate, length, step, options.purity, options.gap_s, bool(options.rate))


def _step(clocks: Mapping[str, Clock], tick: float, even: bool = True) -> float | None:
    """Return the median over people of the step from row to row, s; None if nobody has one.

    `even`: whether rows of one time lie evenly up to the next; else only the first counts.
    """
    steps = [clock.per_row if even else clock.step for clock in clocks.values()]
    known = [step for step in steps if step is not None]
    return float(np.quantile(known, 0.5, method="lower")) * tick if known else None


def _rate(
    clocks: Mapping[str, Clock], tick: float, source: Source, options: ImportOptions
) -> float:
    """Return the median over people of samples a second."""
    step = _step(clocks, tick, options.duplicates == "keep")
    if source.time is None or step is None:
        if source.time is None:
            got, way = "no column of time", f"Say it with {spelt('rate')}"
        else:
            got = f"column {source.time!r} that does not go on"
            none = f"{spelt('time', 'none')} and {spelt('rate')}"
            way = f"Name another column with {spelt('time')}, give {none}"
        raise ConfigError(
            f"rate: got {got}, expected samples a second for windows. {way}, or take each row as a "
            f"sample with {spelt('window', 'none')}"
        )
    exact = 1 / step
    near = round(exact)
    rate = float(near) if near and abs(exact / near - 1) < _WHOLE else float(f"{exact:.4g}")
    check_rate(rate, tick, source.time, source.ticks)
    return rate
