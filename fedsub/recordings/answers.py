"""A person's answers for new recordings: each window's class or value, its begin and its end."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub.recordings.cutting import AT_ONCE, Cutter, CutWindows
from fedsub.recordings.logger_recordings import LoggerRecordings
from fedsub.recordings.smoothing import ForwardFilter
from fedsub.recordings.source import BLOCK, FrameRecording, Recordings, TableRecordings
from fedsub.recordings.survey import first_rows, recording_clock, unit_factors
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Dropped
from fedsub_data.importing.files import PARQUET, TEXT, find_files, kind_of
from fedsub_data.importing.layout_source import layout_recordings
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.windowing import Cut

#: The class of a window whose probability is below the threshold.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Asked:
    """What is asked of a recording.

    Parameters
    ----------
    unknown_below : a less probable class is :data:`UNKNOWN`; 0: none is.
    smooth_s : mean time that a class lasts, s, by which answers are smoothed; None: they are not.
    row_rate : rows a second of a recording without times; None: the model's rate.
    """

    unknown_below: float = 0.0
    smooth_s: float | None = None
    row_rate: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.unknown_below <= 1:
            got = spelt("unknown-below", f"{self.unknown_below:g}")
            raise ConfigError(f"got {got}, expected a probability from 0 to 1")
        if self.row_rate is not None and not 0 < self.row_rate < 1e6:
            got = spelt("row-rate", f"{self.row_rate:g}")
            raise ConfigError(f"got {got}, expected rows a second, above 0")


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers for windows in a row.

    Parameters
    ----------
    begins : float64 [n], s; windows last `length_s`.
    label : int64 [n], places of classes; -1 is unknown. Of a target all are 0.
    shares : float32 [n, classes], probabilities; of a target its values, [n, 1].
    tick : seconds of one unit of the recording's time; None where it has dates.
    """

    recording: str
    begins: NDArray[np.float64]
    length_s: float
    label: NDArray[np.int64]
    shares: NDArray[np.float32]
    tick: float | None

    @property
    def probability(self) -> NDArray[np.float32]:
        """The greatest probability of each window, [n]."""
        greatest: NDArray[np.float32] = self.shares.max(axis=1)
        return greatest


def model_cut(model: PersonalModel, options: ImportOptions) -> Cut:
    """Return the options by which a model's windows are cut, as its card says.

    Raises ConfigError where the model sees no windows of raw signals, or its card says no rate.
    """
    card, shape = model.card, tuple(model.shape)
    if len(shape) != 2:
        raise ConfigError(
            f"client {model.client!r}: got a model of samples of shape {shape}, expected one of "
            "windows [channels, time]: only these are cut of recordings"
        )
    length = shape[1]
    rate = card.sampling_rate_hz or (length / card.window_s if card.window_s else None)
    if rate is None:
        raise ConfigError(
            f"client {model.client!r}: got a model whose card has neither sampling_rate_hz nor "
            "window_s, expected one of them. Write it into federation.toml, and train again"
        )
    step = max(1, round(length * (1 - (card.overlap or 0.0))))
    return Cut(rate, length, step, 0.0, options.gap_s)


@dataclass
class RecordingAnswers:
    """The answers of a person's model for some recordings, in the order of their windows.

    `notes`: what was guessed, converted or left out, in sentences; whole when all is read.
    """

    model: PersonalModel
    source: Recordings
    options: ImportOptions
    asked: Asked = field(default_factory=Asked)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cut = model_cut(self.model, self.options)
        if self.model.card.target and (self.asked.unknown_below or self.asked.smooth_s):
            key = "unknown-below" if self.asked.unknown_below else "smooth"
            raise ConfigError(
                f"{key}: got it for the target {self.model.card.target.name!r}, expected a model "
                "of classes: values have no probability, and do not last"
            )
        self.dropped = Dropped(options=self.options)
        self.notes += self.source.notes

    def blocks(self, size: int = BLOCK, at_once: int = AT_ONCE) -> Iterator[Answered]:
        """Yield answers as they are found.

        `size`, `at_once`: rows that are fetched, and resampled, together.

        Raises DataError where a recording cannot be read, is not like the training data, or none is
        as long as a window.
        """
        lengths, found = list[float](), False
        for file, name in enumerate(self.source.people):
            count, longest = 0, 0.0
            for answered in self._recording(file, size, at_once):
                if isinstance(answered, float):
                    longest = answered
                    continue
                count += len(answered.label)
                yield answered
            lengths.append(longest)
            found |= count > 0
            if not count and len(self.source.people) > 1:
                self.notes.append(f"{name}: {self._short(longest)}. No window of it is answered.")
        for reason, by in self.dropped.counts.items():
            first = self.dropped.first.get(reason)
            where = f"; the first: {first}" if first else ""
            self.notes.append(f"Left out {sum(by.values()):,} {reason.value[0]}{where}.")
        if not found:
            raise DataError(f"{self.source.people[0]}: {self._short(max(lengths))}")

    def _short(self, longest: float) -> str:
        needed = self.cut.length / self.cut.rate
        return (
            f"got {longest:.4g} s without a pause, expected a window's {needed:g} s at least. A "
            f"longer {spelt('gap')} passes over pauses"
        )

    def _recording(self, file: int, size: int, at_once: int) -> Iterator[Answered | float]:
        """Yield the answers for one recording, and last of all its longest stretch, s."""
        model, source = self.model, self.source
        rows = first_rows(source, file)
        if not len(rows):
            raise DataError(
                f"{source.people[file]}: got no row with a number in every channel, expected some"
            )
        clock, notes = recording_clock(
            source, rows, self.options, self.cut.rate, self.asked.row_rate
        )
        factors, more = unit_factors(
            rows, model.card.features, model.scaling, model.card.units, self.options
        )
        self.notes += [*notes, *more]
        if (1 / clock.between) / self.cut.rate > 1.02 or (1 / clock.between) / self.cut.rate < 0.98:
            self.notes.append(
                f"{rows.person}: resampled from {1 / clock.between:.4g} rows a second to the "
                f"model's {self.cut.rate:g}."
            )
        cutter = Cutter(source, self.cut, self.options, clock, self.dropped)
        tick = clock.tick if source.time is None or source.ticks else None
        smooth = self._filter()
        for windows in cutter.windows(file, size, at_once):
            x = windows.x if factors is None else windows.x * factors[:, None]
            shares = model.probabilities(x, rows.person)
            yield self._answered(rows.person, windows, shares, tick, smooth)
        yield cutter.longest

    def _filter(self) -> ForwardFilter | None:
        if self.asked.smooth_s is None:
            return None
        classes = len(self.model.card.classes)
        return ForwardFilter(classes, self.asked.smooth_s, self.cut.step / self.cut.length)

    def _answered(
        self,
        name: str,
        windows: CutWindows,
        shares: NDArray[np.float32],
        tick: float | None,
        smooth: ForwardFilter | None,
    ) -> Answered:
        if smooth is not None:
            shares = smooth.smoothed(shares, windows.begins)
        label = shares.argmax(axis=1)
        if self.asked.unknown_below:
            label[shares.max(axis=1) < self.asked.unknown_below] = -1
        return Answered(name, windows.begins, windows.length_s, label, shares, tick)


def open_recordings(given: Any, channels: Sequence[str], options: ImportOptions) -> Recordings:
    """Return the recordings that are meant; to be closed.

    Parameters
    ----------
    given : a DataFrame; else a file, a folder or a pattern, or a list of such.
    channels : the model's.

    Raises DataError or ConfigError where there are none, they cannot be read, or what reads them is
    not installed.
    """
    if hasattr(given, "columns"):
        return FrameRecording(given, channels, options)
    many = [given] if isinstance(given, str | Path) else list(given)
    files = find_files([str(each) for each in many])
    if (kind := kind_of(files)) not in (TEXT, PARQUET):
        raise DataError(f"{files[0]}: got a file of {kind}, expected recordings as CSV or Parquet")
    from fedsub_core.extras import require

    require("reading tables", "duckdb")
    joined = layout_recordings(files, channels, options)
    return TableRecordings(files, channels, options) if joined is None else LoggerRecordings(joined)


def predict_recordings(
    model: PersonalModel, given: Any, options: ImportOptions, asked: Asked
) -> tuple[list[Answered], list[str]]:
    """Return all answers for some recordings, and notes on them; raises as the two above."""
    with closing(open_recordings(given, model.card.features, options)) as source:
        answers = RecordingAnswers(model, source, options, asked)
        return list(answers.blocks()), answers.notes
