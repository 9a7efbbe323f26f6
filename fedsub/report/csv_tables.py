"""The tables of a report as CSV: numbers in full."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, fields

import numpy as np

from fedsub.report.attendance import ABSENT, STATES, TESTED, UNKNOWN, Attendance
from fedsub.report.comparing import Pair, gains, twin
from fedsub.report.frame import Frame, Grid, Trace
from fedsub.report.maps import class_means, last_f1, people_scores, shares
from fedsub.report.recovery import Recovery
from fedsub_core.data.findings import SplitNote
from fedsub_core.metric_names import CAPACITY


def csv_files(frame: Frame, pairs: Sequence[Pair], found: Sequence[Recovery]) -> dict[str, str]:
    """Return the tables as CSV by file name, numbers in full; an empty cell is no number."""
    methods = [
        asdict(trace.summary) | {"method": trace.method} | dict(trace.bytes)
        for trace in frame.traces
    ]
    for row in methods:
        del row["by_capacity"]  # a table of its own
    heads = list(dict.fromkeys(key for row in methods for key in row))
    compared = [(*astuple(pair), pair.better) for pair in pairs]
    files = {
        "methods.csv": _csv(("seed", *heads), _methods(frame.traces, methods, heads)),
        "pairs.csv": _csv((*(f.name for f in fields(Pair)), "better"), compared),
        "rounds.csv": _csv(
            ("seed", "method", "round", "metric", "mean", "n", "people"), _rounds(frame)
        ),
        "people_classes.csv": _csv(
            ("seed", "method", "person", "class", "f1"), _people_classes(frame)
        ),
    }
    names, columns, scores = people_scores(frame)
    over = gains(frame)
    head = ("person", *columns, *(f"gain of {name} over {twin(frame)}" for name in over))
    each = (
        (name, *row, *(over[method].get(name) for method in over))
        for name, row in zip(names, scores.tolist(), strict=True)
    )
    files["people.csv"] = _csv(head, each)
    labels, means = class_means(frame)
    by_class = zip(map(frame.class_name, labels), means.tolist(), strict=True)
    files["classes.csv"] = _csv(("class", *frame.methods), ((n, *row) for n, row in by_class))
    return files | _some_runs(frame, found)


def _some_runs(frame: Frame, found: Sequence[Recovery]) -> dict[str, str]:
    """Return the tables that not every run has."""
    files, head = dict[str, str](), tuple[str, ...]()
    weak = [
        (trace.repeat, trace.method, share, *map(facts.get, ("people", *frame.scores)))
        for trace in frame.traces
        for share, facts in trace.summary.by_capacity.items()
    ]
    if weak:
        head = ("seed", "method", "capacity", "people", *frame.scores)
        files["capacities.csv"] = _csv(head, weak)
        head = ("seed", "method", "round", "person", "capacity")
        files["people_capacities.csv"] = _csv(head, _people_capacities(frame))
    if frame.notes.splits:
        head = ("person", *(f.name for f in fields(SplitNote)))
        split = ((name, *astuple(note)) for name, note in frame.notes.splits.items())
        files["splits.csv"] = _csv(head, split)
    counted = list(_confusion(frame))
    if counted:
        head = ("seed", "method", "class", "people", "predicted", "share")
        files["confusion.csv"] = _csv(head, counted)
    gone = list(_absent(frame))
    if gone:
        files["attendance.csv"] = _csv(("seed", "method", "round", "person", "was"), gone)
    owed = list(_shares(frame))
    if owed:
        files["shares.csv"] = _csv(("seed", "method", "person", "of", "share"), owed)
    with_whom = list(_clusters(frame))
    if with_whom:
        files["clusters.csv"] = _csv(
            ("seed", "method", "round", "class", "person", "cluster"), with_whom
        )
    if found:
        files["recovery.csv"] = _csv([f.name for f in fields(Recovery)], map(astuple, found))
    return files


def _people_capacities(frame: Frame) -> Iterator[tuple[object, ...]]:
    """Yield who held which share from which round on: of one that stays, the first round."""
    for trace in frame.traces:
        grid, held = trace.people.get(CAPACITY, Grid.of({})), dict[str, float]()
        for round in grid.rounds:
            for person, share in grid.at(round).items():
                if held.get(person) != share:
                    held[person] = share
                    yield trace.repeat, trace.method, round, person, share


def _methods(
    traces: Sequence[Trace], rows: Sequence[dict[str, object]], heads: Sequence[str]
) -> Iterator[Sequence[object]]:
    for trace, row in zip(traces, rows, strict=True):
        yield (trace.repeat, *(row.get(key) for key in heads))


def _rounds(frame: Frame) -> Iterator[Sequence[object]]:
    for trace in frame.traces:
        there = Attendance.of(trace)
        for metric in ("macro_f1", "weighted_f1", "accuracy", "mae", "rmse", "r2", "loss"):
            grid = trace.people[metric]
            counts = grid.there.sum(1).tolist()
            for round, mean, n in zip(grid.rounds, grid.means.tolist(), counts, strict=True):
                yield trace.repeat, trace.method, round, metric, mean, n, there.count(round)[0]


def _absent(frame: Frame) -> Iterator[Sequence[object]]:
    """Yield who was not tested in a round that others were tested in, or was absent; and why."""
    for trace in frame.traces:
        found = Attendance.of(trace)
        for (row, column), state in np.ndenumerate(found.states):
            wanted = found.tested[column] > 0 and state != UNKNOWN
            if state in ABSENT or (wanted and state != TESTED):
                who = found.people[row]
                yield trace.repeat, trace.method, found.rounds[column], who, STATES[state]


def _shares(frame: Frame) -> Iterator[Sequence[object]]:
    for trace in frame.traces:
        people, names, values = shares(trace)
        for (row, column), share in np.ndenumerate(values):
            yield trace.repeat, trace.method, people[row], names[column], float(share)


def _clusters(frame: Frame) -> Iterator[Sequence[object]]:
    """Yield in which cluster of each class everybody is, in the last round that says so."""
    for trace in frame.traces:
        for label, grid in trace.members.items():
            for person, cluster in grid.at(grid.rounds[-1]).items():
                name = frame.class_name(label)
                yield trace.repeat, trace.method, grid.rounds[-1], name, person, int(cluster)


def _confusion(frame: Frame) -> Iterator[Sequence[object]]:
    """Yield the mean share of each class's test samples by predicted class; no row for none."""
    for trace in frame.traces:
        for true, row in trace.confusion.items():
            for predicted, share in sorted(row.shares.items()):
                names = frame.class_name(true), frame.class_name(predicted)
                yield trace.repeat, trace.method, names[0], row.people, names[1], share


def _people_classes(frame: Frame) -> Iterator[Sequence[object]]:
    for trace in frame.traces:
        names, labels, values = last_f1(trace)
        for (row, column), f1 in np.ndenumerate(values):
            if np.isfinite(f1):
                name = frame.class_name(labels[column])
                yield trace.repeat, trace.method, names[row], name, float(f1)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return ""
    # Names of classes are whatever a federation's file says; a spreadsheet must not compute them.
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@") else value
