"""What first rows of a recording show: its clock, its rate, and an accelerometer's unit."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub.recordings.cutting import RecordingClock
from fedsub.recordings.source import Recordings
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.behaviour import G
from fedsub_data.importing.clocks import Clock, clock_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.sensors import Kind, sensors
from fedsub_data.importing.source import Rows
from fedsub_data.importing.time_unit import tick_seconds
from fedsub_data.importing.windowing import GAP_STEPS

#: Rows that are looked at.
FIRST = 100_000
#: So many samples at most are made of one row, as an import without a given rate does.
_MADE = 2.0
#: How far from a factor of units lengths may be, and how near to gravity those of training.
_NEAR = 1.8
#: Between a unit and its thousandth.
_THOUSAND = 1e3


def first_rows(source: Recordings, file: int) -> Rows:
    """Return a recording's first rows, with a time and without values that are no numbers."""
    rows = next(source.blocks(file, FIRST))
    fine: NDArray[np.bool_] = np.asarray(np.isfinite(rows.x).all(axis=1))
    if rows.t is not None:
        fine &= np.isfinite(rows.t)
    return rows.part(fine)


def recording_clock(
    source: Recordings, rows: Rows, options: ImportOptions, rate: float, own_rate: float | None
) -> tuple[RecordingClock, list[str]]:
    """Return the clock of a recording, and sentences on what was guessed of it.

    Parameters
    ----------
    rows : its first rows.
    rate : the model's samples a second.
    own_rate : rows a second of a recording without times; None: the model's rate.

    Raises DataError where times cannot be read, or there is less than half a row for each sample.
    """
    notes = []
    if source.time is None:
        between = 1 / (own_rate or rate)
        if own_rate is None:
            notes.append(
                f"{rows.person}: there is no column of time. {rate:g} rows a second are assumed, "
                f"the model's rate. To change this: {spelt('row-rate')}."
            )
        return _checked(RecordingClock(1.0, between, _gap(options, between)), rows, rate), notes
    clock = clock_of(rows)
    if clock.step is None:
        raise DataError(
            f"{rows.person}: got no two rows with times that go on in column {source.time!r}, "
            f"expected a recording. {spelt('time', 'none')} takes rows in their order"
        )
    if options.duplicates != "keep":
        clock = Clock(clock.step, clock.start)
    tick, guess = tick_seconds({rows.person: clock}, source.time, source.ticks, options)
    notes += [f"{rows.person}: {guess}"] * bool(guess)
    between = (clock.per_row or 0.0) * tick
    return _checked(RecordingClock(tick, between, _gap(options, between)), rows, rate), notes


def _gap(options: ImportOptions, between: float) -> float:
    return options.gap_s if options.gap_s is not None else GAP_STEPS * between


def _checked(clock: RecordingClock, rows: Rows, rate: float) -> RecordingClock:
    if clock.between * rate > _MADE * 1.02:
        raise DataError(
            f"{rows.person}: got {1 / clock.between:.4g} rows a second, expected {rate / _MADE:g} "
            f"at least, half of the model's {rate:g}: most of each window would be made up. Check "
            f"{spelt('time-unit')}, or give {spelt('time', 'none')} if the column numbers the rows"
        )
    return clock


def unit_factors(
    rows: Rows,
    features: tuple[str, ...],
    scaling: Scaling | None,
    units: str,
    options: ImportOptions,
) -> tuple[NDArray[np.float32] | None, list[str]]:
    """Return the factors float32 [F] that convert a recording to the model's units, and notes.

    An accelerometer at rest shows gravity, so the mean square length of its vector tells g from
    m/s^2, and either from its thousandth. A sensor without gravity shows no unit: how much a person
    moves is not known.

    Parameters
    ----------
    scaling : means and deviations of the training data by channel; None: nothing is compared.
    units : of the training data, in words.

    Raises DataError where the unit differs and ``convert`` does not name the model's.
    """
    factors, converted, notes = np.ones(len(features), np.float32), False, list[str]()
    known = [s for s in sensors(features) if s.kind == Kind.ACCELERATION] if scaling else []
    for sensor in known:
        for vector in (v for v in sensor.vectors if len(v.columns) == 3 and not v.statistic):
            assert scaling is not None
            at = list(vector.columns)
            square = np.square(scaling.mean[at], dtype=np.float64) + np.square(scaling.std[at])
            trained = float(np.sqrt(square.sum()))
            got = float(np.sqrt(np.square(rows.x[:, at], dtype=np.float64).sum(axis=1).mean()))
            times, own, theirs = _unlike(got, trained)
            if times == 1 or options.mixed_units == "keep":
                continue
            named = f"columns {', '.join(repr(features[i]) for i in at)}"
            if theirs not in options.conversions:
                raise DataError(
                    f"{rows.person}: {named}: got values of {got:.4g} on average, the model was "
                    f"trained on {trained:.4g}, as with {own} and {theirs}; expected "
                    f"{units or theirs}. {spelt('convert', theirs)} converts them, "
                    f"{spelt('mixed-units', 'keep')} lets them pass"
                )
            factors[at] = times
            converted = True
            notes.append(f"{rows.person}: converted {named} from {own} to {theirs}.")
    if options.convert and not converted:
        word = spelt("convert", options.convert)
        notes.append(f"{rows.person}: nothing to convert by {word}: numbers show no other unit.")
    return (factors if converted else None), notes


def _unlike(got: float, trained: float) -> tuple[float, str, str]:
    """Return the factor between the units of two mean lengths of acceleration, and both units."""
    unit, gravity = min((("g", 1.0), ("m/s^2", G)), key=lambda u: abs(np.log(trained / u[1])))
    if not got or abs(np.log(trained / gravity)) > np.log(_NEAR):
        return 1.0, unit, unit
    others = {"g": 1.0, "m/s^2": G, "mg": _THOUSAND}
    del others[unit]
    for other, size in others.items():
        if abs(np.log(got / trained * gravity / size)) < np.log(_NEAR):
            return gravity / size, other, unit
    return 1.0, unit, unit


def converted(rows: Rows, factors: NDArray[np.float32] | None) -> Rows:
    """Return rows in the model's units."""
    return rows if factors is None else replace(rows, x=rows.x * factors)
