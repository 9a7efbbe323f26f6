"""What an import makes of its rows, decided by a survey of all of them: units, rate, windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_core.data.card import Card
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.converting import Conversion, Units
from fedsub_data.importing.options import NONE, ImportOptions
from fedsub_data.importing.rising import RisingFeatures
from fedsub_data.importing.source import Source
from fedsub_data.importing.units import Survey, check_units, survey, tick_seconds
from fedsub_data.importing.windowing import Cut

#: The papers' window of raw signals, s.
WINDOW_S = 2.56
#: A rate so near to a whole number, relatively, is that one.
_WHOLE = 0.01


@dataclass(frozen=True)
class Plan:
    """What is made of the rows.

    Parameters
    ----------
    card : of the federation.
    tick : seconds of one unit of the source's time.
    cut : how windows are cut; None: each row is a sample, or a window already.
    notes : what was guessed, in sentences.
    conversion : of people whose units differ.
    """

    card: Card
    tick: float
    cut: Cut | None
    notes: tuple[str, ...]
    conversion: Conversion


def plan(source: Source, options: ImportOptions, name: str) -> Plan:
    """Go through the source once; return what is made of its rows.

    Raises
    ------
    DataError, ConfigError
        Where people's units differ, nothing says a rate, or options do not fit the rows.
    """
    if not source.people:
        raise DataError(f"{name}: got no row with a person, expected some. Check --subject")
    if not source.labels:
        raise DataError(f"{name}: got no row with a label, expected some. Check --label")
    if len(source.labels) == 1:
        raise DataError(
            f"{name}: got one class, {source.labels[0]!r}, expected two at least. Check --label "
            "and --no-label, or import the other files, too"
        )
    surveys: dict[str, Survey] = {}
    axes, points = 2, 1
    rising, units = RisingFeatures(source), Units(source, options)
    for rows in source.rows():
        surveys[rows.person], axes = survey(rows), rows.x.ndim
        rising.add(rows)
        units.add(rows)
        points = rows.x.shape[2] if axes == 3 else 1
    rising.check(name)
    check_units(surveys, options)
    conversion = units.check()
    signal = axes == 2 and _windowed(source, options)
    between = points / options.rate if options.rate and (signal or axes == 3) else None
    tick, said = tick_seconds(surveys, source.time or "", source.ticks, options, between, signal)
    notes = [*source.notes, *([said] if said else []), *conversion.notes]
    if axes == 3 and source.time is None:
        notes.append(
            "Windows come without a time: whether they overlap is not known, and test windows are "
            "drawn at random. Where they follow one another, run with --split blocked."
        )
    cut = None
    if signal:
        cut = _cut(surveys, tick, source, options, notes)
    elif options.missing == "interpolate":
        raise ConfigError(
            "missing: got interpolate where rows are samples, expected drop or stop: only signals "
            "in time have rows around a missing one"
        )
    rate = cut.rate if cut else options.rate if axes == 3 and options.rate else None
    card = Card(
        name,
        options.task,
        source.labels,
        source.features,
        options.units,
        sampling_rate_hz=rate,
        window_s=cut.length / cut.rate if cut else None,
        overlap=1 - cut.step / cut.length if cut else 0.0,
    )
    return Plan(card, tick, cut, tuple(notes), conversion)


def _windowed(source: Source, options: ImportOptions) -> bool:
    """Return whether rows are a signal that is cut into windows."""
    if options.window == NONE:
        return False
    return options.window_s is not None or source.time is not None or options.rate > 0


def _cut(
    surveys: Mapping[str, Survey],
    tick: float,
    source: Source,
    options: ImportOptions,
    notes: list[str],
) -> Cut:
    window_s = options.window_s or WINDOW_S
    if options.window_s is None:
        notes.append(f"Guessed: --window {window_s:g}s, as there are times.")
    rate = options.rate
    if not rate:
        rate = _rate(surveys, tick, source)
        notes.append(f"Guessed: --rate {rate:g}, the median over people.")
    length = round(window_s * rate)
    if length < 2:
        raise ConfigError(
            f"window: got {window_s:g} s of {rate:g} samples a second, expected two samples at "
            "least. Give a longer --window, or --window none, which takes each row as a sample"
        )
    step = max(1, round(length * (1 - options.overlap)))
    return Cut(rate, length, step, options.purity, options.gap_s)


def _rate(surveys: Mapping[str, Survey], tick: float, source: Source) -> float:
    """Return the median over people of samples a second."""
    steps = [one.step for one in surveys.values() if one.step is not None]
    if source.time is None or not steps:
        of = f"column {source.time!r} that does not go on" if source.time else "no column of time"
        raise ConfigError(
            f"rate: got {of}, expected samples a second for windows. Say it with --rate, or take "
            "each row as a sample with --window none"
        )
    found = 1 / (float(np.median(steps)) * tick)
    near = round(found)
    return float(near) if near and abs(found / near - 1) < _WHOLE else float(f"{found:.4g}")
