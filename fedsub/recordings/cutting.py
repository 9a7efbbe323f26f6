"""Windows of a recording that is read in blocks: memory is bounded, and blocks change no number."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fedsub.recordings.source import BLOCK, Recordings
from fedsub_core.spelling import spelt
from fedsub_data.importing.cleaning import cleaned
from fedsub_data.importing.dropped import Dropped, stopped
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.recordings import repeated
from fedsub_data.importing.resampling import at_rate
from fedsub_data.importing.source import Rows
from fedsub_data.importing.windowing import Cut

#: Rows of a stretch that are resampled at once; of longer ones windows go on where they ended.
AT_ONCE = 1 << 17
#: Samples around a part that are resampled with it: a mean over rows needs those on either side.
_AROUND = 64


@dataclass(frozen=True, eq=False)
class CutWindows:
    """Windows in a row: ``x`` float32 [n, F, time], ``begins`` float64 [n], s.

    `length_s` is a window's, and `new` says whether a pause or the recording's start stands before.
    """

    x: NDArray[np.float32]
    begins: NDArray[np.float64]
    length_s: float
    new: bool


@dataclass(frozen=True)
class RecordingClock:
    """The clock of one recording.

    Parameters
    ----------
    tick : seconds of one unit of its time.
    between : seconds from row to row.
    gap_s : seconds of a pause that no window spans.
    """

    tick: float
    between: float
    gap_s: float


class Stretch:
    """A stretch without a pause, which gets rows and gives windows.

    `at_once`: rows that are resampled together.
    """

    def __init__(self, cut: Cut, at_once: int = AT_ONCE) -> None:
        self._cut, self._at_once, self._most = cut, at_once, at_once
        self._rows: Rows | None = None
        self._lead, self._new = 0, True
        #: The first time, and the last one, s; None before the first row.
        self.span: tuple[float, float] | None = None

    def add(self, rows: Rows) -> Iterator[CutWindows]:
        """Take rows whose times are in s; yield the windows that are sure."""
        while len(rows):
            first = rows.times[0] if self.span is None else self.span[0]
            self.span = float(first), float(rows.times[-1])
            held = 0 if self._rows is None else len(self._rows)
            room = max(1, self._most - held)
            self._rows = joined(self._rows, rows.part(slice(room)))
            rows = rows.part(slice(room, None))
            if self._rows is not None and len(self._rows) >= self._most:
                yield from self._windows(last=False)

    def end(self) -> Iterator[CutWindows]:
        """Yield the last windows: nothing follows."""
        if self._rows is not None:
            yield from self._windows(last=True)

    def _windows(self, last: bool) -> Iterator[CutWindows]:
        assert self._rows is not None
        rows, cut = self._rows, self._cut
        t, x, _ = at_rate(rows, cut.rate)
        usable = len(t) if last else len(t) - _AROUND
        at = np.arange(self._lead, usable - cut.length + 1, cut.step)
        if len(at):
            view = sliding_window_view(x, cut.length, axis=0)[at]
            own = np.ascontiguousarray(view, np.float32)
            yield CutWindows(own, t[at], cut.length / cut.rate, self._new)
            self._new = False
        if last or not len(at):
            self._most += self._at_once  # a part holds one window at least
            return
        self._most = self._at_once
        following = int(at[-1]) + cut.step
        self._lead = min(_AROUND, following)
        start = following - self._lead
        if t is rows.t:
            self._rows = rows.part(slice(start, None))
            return
        # The next part's grid goes on with this one's: it begins with a sample of it.
        after = rows.part(rows.times > t[start] + 1e-3 / cut.rate)
        sample = replace(rows.part(slice(1)), t=t[start : start + 1], x=x[start : start + 1])
        self._rows = joined(sample, after)


class Cutter:
    """Cutter of one recording: rows are cleaned, dated, parted at pauses and cut into windows.

    Parameters
    ----------
    clock : the recording's.
    dropped : gains what is left out.
    """

    def __init__(
        self,
        source: Recordings,
        cut: Cut,
        options: ImportOptions,
        clock: RecordingClock,
        dropped: Dropped,
    ) -> None:
        self._source, self._cut, self._options = source, cut, options
        self._clock, self._dropped = clock, dropped
        self._held: Rows | None = None
        self._done: Rows | None = None
        self._stretch = Stretch(cut)
        #: The longest stretch, s.
        self.longest = 0.0

    def windows(self, file: int, size: int = BLOCK, at_once: int = AT_ONCE) -> Iterator[CutWindows]:
        """Yield the windows of one recording; `size` rows are fetched together.

        Raises DataError where rows hold what no option lets pass; it names the place.
        """
        self._stretch, self._held, self._done = Stretch(self._cut, at_once), None, None
        for block in self._source.blocks(file, size):
            timed = (
                block
                if block.t is not None
                else block.at(block.row * np.float64(self._clock.between))
            )
            rows = cleaned(timed, self._source, self._options, self._dropped)
            for part, new in self._in_time(rows):
                if new:
                    yield from self._ended(at_once)
                yield from self._added(self._once(part, last=False), at_once)
        yield from self._ended(at_once)

    def _in_time(self, rows: Rows) -> Iterator[tuple[Rows, bool]]:
        """Yield rows whose time goes on, and whether time ran backwards before them."""
        if not len(rows):
            return
        before = rows.times[0] if self._held is None else self._held.times[-1]
        back = np.flatnonzero(np.diff(rows.times, prepend=before) < 0)
        if len(back) and self._options.backwards == "stop":
            at = int(back[0])
            was = rows.times[at - 1] if at else before
            raise stopped(
                f"time runs backwards, {was:.15g} stands before it",
                len(back),
                self._source.place(int(rows.file[at]), int(rows.row[at]), self._source.time),
                f"{spelt('backwards', 'sort')} puts rows in order of time, split begins a new "
                "recording there",
            )
        ends = [0, *back.tolist(), len(rows)]
        for begin, end in itertools.pairwise(ends):
            if end > begin:
                yield rows.part(slice(begin, end)), begin in back

    def _once(self, rows: Rows | None, last: bool) -> Rows | None:
        """Return rows of which each has a time of its own; those of the last time are held back."""
        rows, done = joined(self._held, rows), self._done
        self._held = self._done = None
        if rows is None:
            return None
        ready = np.full(len(rows), last)
        if not last:
            ready = rows.times < rows.times[-1]
            self._held, self._done = rows.part(~ready), done
            if not ready.any():
                return None
        if self._options.duplicates != "keep":
            return repeated(rows.part(ready), self._source, self._options, self._dropped)
        # Rows of one time are spread up to the next one; the last ones as those before them.
        if not last:
            self._done = rows.part(rows.times == rows.times[ready][-1])
        before = 0 if done is None else len(done)
        every = joined(done, rows)
        assert every is not None
        spread = repeated(every, self._source, self._options, self._dropped)
        return spread.part(slice(before, None)).part(ready)

    def _added(self, rows: Rows | None, at_once: int) -> Iterator[CutWindows]:
        """Yield windows of rows that go on, parted at pauses."""
        if rows is None or not len(rows):
            return
        seconds = rows.times * (self._clock.tick if self._source.time else 1.0)
        rows = rows.at(seconds)
        before = seconds[0] if self._stretch.span is None else self._stretch.span[1]
        breaks = np.flatnonzero(np.diff(seconds, prepend=before) > self._clock.gap_s).tolist()
        ends = [0, *breaks, len(rows)]
        for begin, end in itertools.pairwise(ends):
            if begin in breaks:
                yield from self._closed(at_once)
            yield from self._stretch.add(rows.part(slice(begin, end)))

    def _ended(self, at_once: int) -> Iterator[CutWindows]:
        """Yield the windows that were held back: the recording ends."""
        yield from self._added(self._once(None, last=True), at_once)
        yield from self._closed(at_once)

    def _closed(self, at_once: int) -> Iterator[CutWindows]:
        """Yield the last windows of a stretch, and begin another."""
        yield from self._stretch.end()
        if self._stretch.span is not None:
            begins, ends = self._stretch.span
            self.longest = max(self.longest, ends - begins + 1 / self._cut.rate)
        self._stretch = Stretch(self._cut, at_once)


def joined(first: Rows | None, second: Rows | None) -> Rows | None:
    """Return rows of one recording one behind the other; None is none."""
    if first is None or second is None:
        return second if first is None else first
    keys = ("file", "row", "y", "t", "x")
    return Rows(
        first.person, *(np.concatenate([getattr(r, key) for r in (first, second)]) for key in keys)
    )
