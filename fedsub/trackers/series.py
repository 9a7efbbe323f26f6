"""What trackers are told of a run: means over people by round, its settings, its times."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsub.report.frame import Floats, Frame, Grid, Trace
from fedsub.report.reading import read_run
from fedsub_core.data.fingerprint import fingerprint_key
from fedsub_core.options import Value
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase

#: Metrics of people whose mean says nothing of a model: how many samples test it, in which group
#: somebody is, who is not asked.
NO_MEANS = {"examples", "group", "resting"}
_BYTES = "bytes_"


@dataclass(frozen=True)
class Series:
    """One number by round, rounds ascending; a nan is that of a model that diverged."""

    name: str
    rounds: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class Tracked:
    """One method's run.

    Parameters
    ----------
    method, run : its name, and the name drawn for it, which it keeps when it is resumed.
    settings : flat keys and values that stay as they are when it goes on.
    times : seconds since 1970 of each round's end; 0 is the start.
    finished : whether all rounds were done.
    """

    method: str
    run: str
    settings: Mapping[str, Value]
    series: Sequence[Series]
    times: Mapping[int, float]
    finished: bool


def tracked(folder: Path) -> list[Tracked]:
    """Return the numbers for trackers of each method that has begun in a run's folder.

    Raises RunError if the folder holds no method's database, or one that cannot be read.
    """
    frame = read_run(folder)
    return [_tracked(folder / trace.method / DATABASE_FILE, frame, trace) for trace in frame.traces]


def _tracked(path: Path, frame: Frame, trace: Trace) -> Tracked:
    found = list(_series(frame, trace))
    with RunDatabase(path) as database:
        run, seconds = database.meta()["run"], database.seconds_by_round()
    # The newest of the two files that SQLite writes a commit into.
    files = (path, path.with_name(f"{path.name}-wal"))
    end = max(file.stat().st_mtime for file in files if file.exists())
    rounds = {round for one in found for round in one.rounds}
    person = fingerprint_key("")
    return Tracked(
        method=trace.method,
        run=run,
        settings={"method": trace.method, "version": trace.version}
        | {key: value for key, value in trace.config.items() if not key.startswith(person)},
        series=found,
        times=_times(seconds, end, max(rounds, default=0)),
        finished=trace.finished,
    )


def _series(frame: Frame, trace: Trace) -> Iterator[Series]:
    for metric, grid in sorted(trace.people.items()):
        if metric in NO_MEANS:
            continue
        if metric.startswith(_BYTES):
            name = f"bytes/{metric.removeprefix(_BYTES)}"
        else:
            name = f"people/{metric}"
        yield from _means(name, grid)
        if metric == "macro_f1":
            yield from _by_round(f"{name}_p10", grid, _worst_decile(grid))
    names = _class_names(frame, trace)
    for label, grid in trace.f1.items():
        yield from _means(f"f1/{names[label]}", grid)


def _means(name: str, grid: Grid) -> Iterator[Series]:
    return _by_round(name, grid, grid.means)


def _by_round(name: str, grid: Grid, values: Floats) -> Iterator[Series]:
    # Round 0 is the handshake and no round.
    kept = [i for i, round in enumerate(grid.rounds) if round > 0]
    if kept:
        yield Series(name, [grid.rounds[i] for i in kept], values[kept].tolist())


def _worst_decile(grid: Grid) -> Floats:
    """Return the 10th percentile over people [rounds], as ``summary.json`` has it."""
    rows = zip(grid.values, grid.there, strict=True)
    return np.array([np.percentile(row[there], 10) for row, there in rows])


def _class_names(frame: Frame, trace: Trace) -> dict[int, str]:
    """Return classes' names in letters that every viewer takes, no two the same."""
    names = {label: re.sub(r"[^\w.-]+", "_", frame.class_name(label)) for label in trace.f1}
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    return {label: f"{name}_{label}" if name in twice else name for label, name in names.items()}


def _times(seconds: Mapping[int, float], end: float, last: int) -> dict[int, float]:
    """Return when each round up to the `last` ended, from the `seconds` of commits and their `end`.

    A commit can hold several rounds: they are taken to have lasted equally long. Of pauses between
    a run and its resumption the database knows nothing: they are left out.
    """
    total, at = 0.0, {0: 0.0}
    for round, each in seconds.items():
        total += each
        at[round] = total
    elapsed = np.interp(range(last + 1), list(at), list(at.values()))
    return dict(enumerate((end - total + elapsed).tolist()))
