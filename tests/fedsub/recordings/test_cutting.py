"""Windows that are cut block by block are those that an import cuts of the whole recording."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fedsub.recordings.cutting import AT_ONCE, Cutter, RecordingClock
from fedsub.recordings.source import FrameRecording, rows_of
from fedsub_data.importing.dropped import Dropped
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows
from fedsub_data.importing.windowing import Cut, Kept, windows
from tests.fedsub.recordings.made_recordings import CARD, RATE, made_frame

CUT = Cut(RATE, 40, 20, 0.0, None)


def cut_of(
    frame: Any, between: float, size: int = 1 << 16, at_once: int = AT_ONCE, **options: str
) -> tuple[np.ndarray, np.ndarray]:
    given = ImportOptions(**options)  # type: ignore[arg-type]
    source = FrameRecording(frame, CARD.features, given)
    clock = RecordingClock(1.0, between, 10 * between)
    made = list(Cutter(source, CUT, given, clock, Dropped()).windows(0, size, at_once))
    assert made
    return np.concatenate([m.x for m in made]), np.concatenate([m.begins for m in made])


def imported(frame: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what an import makes of the same rows, all with one label."""
    fine = frame.dropna()
    x = fine[list(CARD.features)].to_numpy(np.float32)
    rows = rows_of("p", 0, np.arange(len(x)), fine["time"].to_numpy(np.float64), x)
    made = windows([rows], CUT, Kept(), "p", Dropped())
    return made.x, made.t


def holed(frame: Any) -> Any:
    """Return the recording with NaN, a lost row, and pauses of 9 and of 61 steps."""
    frame.loc[[77, 1200], "acc_y"] = np.nan
    return frame.drop([*range(300, 308), *range(700, 760), 1500]).reset_index(drop=True)


@pytest.mark.parametrize("rate", [20.0, 50.0, 17.0])
@pytest.mark.parametrize("whole", [True, False])
def test_windows_are_those_of_an_import(rng: np.random.Generator, rate: float, whole: bool) -> None:
    frame = made_frame(rng, 3000, rate)
    frame = frame if whole else holed(frame)
    x, begins = cut_of(frame, 1 / rate)
    expected_x, expected_begins = imported(frame)
    assert len(x) > 30
    np.testing.assert_array_equal(begins, expected_begins)
    np.testing.assert_array_equal(x, expected_x)


@pytest.mark.parametrize("rate", [20.0, 50.0])
def test_blocks_change_no_number_and_small_parts_hardly_any(
    rng: np.random.Generator, rate: float
) -> None:
    frame = holed(made_frame(rng, 5000, rate))
    x, begins = cut_of(frame, 1 / rate)
    for size in (1, 97):
        again, when = cut_of(frame, 1 / rate, size)
        np.testing.assert_array_equal(again, x)
        np.testing.assert_array_equal(when, begins)
    parts, when = cut_of(frame, 1 / rate, 97, at_once=600)
    np.testing.assert_allclose(when, begins, atol=1e-6)
    np.testing.assert_allclose(parts, x, atol=1e-3)


def test_rows_of_one_second_are_spread_alike_in_small_blocks(rng: np.random.Generator) -> None:
    frame = made_frame(rng, 1000)
    frame["time"] = np.floor(frame["time"])
    x, begins = cut_of(frame, 0.05, duplicates="keep")
    again, when = cut_of(frame, 0.05, 33, duplicates="keep")
    assert len(x) == 49
    np.testing.assert_array_equal(begins, np.arange(49.0))
    np.testing.assert_array_equal(when, begins)
    np.testing.assert_array_equal(again, x)


class Endless:
    """A recording of many rows, of which none is kept; each block is made when it is asked for."""

    features, labels, rising, people = CARD.features, (), (), ("endless",)
    time, ticks, notes = "time", True, list[str]()

    def __init__(self, rows: int) -> None:
        self.count = rows

    def blocks(self, file: int, size: int = 0) -> Iterator[Rows]:
        for at in range(0, self.count, size):
            row = np.arange(at, at + size)
            yield rows_of("endless", 0, row, row / 50, np.sin(row[:, None] + np.arange(3)))


def peak_of(rows: int) -> int:
    source: Any = Endless(rows)
    cutter = Cutter(source, CUT, ImportOptions(), RecordingClock(1.0, 0.02, 0.2), Dropped())
    tracemalloc.start()
    try:
        count = sum(len(w.x) for w in cutter.windows(0, 500, at_once=2000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == pytest.approx(rows / 50, abs=3)
    return peak


def test_memory_does_not_grow_with_the_recording() -> None:
    peak_of(4_000)
    assert peak_of(80_000) < 1.2 * peak_of(8_000)
