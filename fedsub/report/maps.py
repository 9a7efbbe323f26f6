"""Heat maps: people, classes, both of each method; what each person's prediction owes to what."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedsub.report.comparing import own_heads
from fedsub.report.frame import Floats, Frame, Trace
from fedsub.report.svg import LOOK, WIDTH, Drawn, drawn
from fedsub_core.methods.table import METHODS
from fedsub_data.inspection.drawing import LACKING, ROW_INCHES, short_name
from fedsub_server.twins import OWN

_MOST_NUMBERED = 10  # columns whose cells have room for a number
_ROW = ROW_INCHES + 0.03
_LONG = 50  # rows; more of them are drawn thin, and not every one is named


def last_f1(trace: Trace) -> tuple[tuple[str, ...], list[int], Floats]:
    """Return people, labels and F1 [people, classes] of the last evaluated round, nan for none."""
    scores = trace.people["macro_f1"]
    people = tuple(scores.at(scores.rounds[-1])) if scores.rounds else ()
    labels = sorted(trace.f1)
    values = np.full((len(people), len(labels)), np.nan)
    for column, label in enumerate(labels):
        cells = trace.f1[label].at(scores.rounds[-1]) if scores.rounds else {}
        values[:, column] = [cells.get(person, np.nan) for person in people]
    return people, labels, values


def class_means(frame: Frame) -> tuple[list[int], Floats]:
    """Return labels and mean F1 [classes, methods] over people who have or are given the class.

    Of several seeds, the mean of these. A class of the card that nobody was tested on has nan.
    """
    tested = {label for trace in frame.traces for label in trace.f1}
    labels = sorted(tested.union(range(len(frame.classes)))) if tested else []
    values = np.full((len(labels), len(frame.methods)), np.nan)
    for column, name in enumerate(frame.methods):
        found: dict[int, list[float]] = {}
        for trace in frame.of(name):
            _, own, f1 = last_f1(trace)
            for place, label in enumerate(own):
                known = f1[:, place][np.isfinite(f1[:, place])]
                if len(known):
                    found.setdefault(label, []).append(float(known.mean()))
        for label, means in found.items():
            values[labels.index(label), column] = np.mean(means)
    return labels, values


def people_scores(frame: Frame) -> tuple[list[str], tuple[str, ...], Floats]:
    """Return people, columns and scores [people, columns] of the last evaluated round.

    Columns are methods, and own heads where there are some; nan for none. Of several seeds, the
    mean of those in which a person was tested.
    """
    columns = {name: [t.people[frame.score] for t in frame.of(name)] for name in frame.methods}
    own = [heads for trace in frame.traces if (heads := own_heads(trace)).rounds]
    columns |= {OWN: own} if own else {}
    last: list[dict[str, list[float]]] = []
    for grids in columns.values():
        found: dict[str, list[float]] = {}
        for grid in grids:
            for person, value in (grid.at(grid.rounds[-1]) if grid.rounds else {}).items():
                found.setdefault(person, []).append(value)
        last.append(found)
    people = sorted(set().union(*last))
    values = [[np.mean(cells.get(person, math.nan)) for cells in last] for person in people]
    return people, tuple(columns), np.array(values).reshape(len(people), len(last))


def score_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw people x methods and classes x methods, where anything was evaluated."""
    people, columns, scores = people_scores(frame)
    if people and frame.score == "macro_f1":  # an error is no share
        yield _share_map(f"{frame.key}people", "Macro F1 of every person", people, columns, scores)
    labels, means = class_means(frame)
    if labels:
        names = [frame.class_name(label) for label in labels]
        title = "F1 of every class, mean over people"
        yield _share_map(f"{frame.key}classes", title, names, frame.methods, means)


def person_class_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw people x classes for each method that was evaluated."""
    for place, name in enumerate(frame.methods):
        people, labels, values = last_f1(frame.of(name)[0])
        if people and labels:
            classes = [frame.class_name(label) for label in labels]
            title = f"{name}: F1 of every person and class"
            yield _share_map(f"people_classes_{place + 1}", title, people, classes, values)


CONFUSION_EXPLAINED = (
    "A row is a class as it was labelled, a column a class as it was predicted, in the last "
    "evaluated round. A cell is the share of a person's test samples of the row's class that was "
    "predicted as the column's class, mean over the people who have samples of it. Each row sums "
    "to 1; off the diagonal stands what was taken for something else."
)


def confusion(frame: Frame, trace: Trace) -> tuple[list[str], list[str], Floats]:
    """Return names of true and of predicted classes, and mean shares [true, predicted].

    All are empty where nothing was counted.
    """
    predicted = {label for row in trace.confusion.values() for label in row.shares}
    labels = sorted(predicted.union(trace.confusion))
    rows = [frame.class_name(label) for label in trace.confusion]
    columns = [frame.class_name(label) for label in labels]
    values = [[row.shares.get(one, 0.0) for one in labels] for row in trace.confusion.values()]
    return rows, columns, np.array(values).reshape(len(rows), len(labels))


def confusion_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw true classes x predicted classes for each method that counted them."""
    for place, name in enumerate(frame.methods):
        trace = frame.of(name)[0]
        rows, columns, values = confusion(frame, trace)
        if rows:
            counts = {row.people for row in trace.confusion.values()}
            least, most = min(counts), max(counts)
            people = f"{least} to {most} people" if least < most else f"{most} people"
            title = f"{name}: what each class is predicted as{frame.of_seed}"
            said = f"Mean over {people} of each class. The darker the diagonal, the better."
            figure = f"{frame.key}confusion_{place + 1}"
            yield _share_map(figure, title, rows, columns, values, said)


def shares(trace: Trace) -> tuple[list[str], list[str], Floats]:
    """Return people, what their reports are shares of, and these, [people, of], at the end.

    Of methods whose card says so (``shares``). Empty where there are none.
    """
    names = {name: of for card in METHODS.values() for name, of in card.prediction.shares.items()}
    grids = {of: trace.people[name] for name, of in names.items() if name in trace.people}
    if not grids:
        return [], [], np.zeros((0, 0))
    last = {name: grid.at(grid.rounds[-1]) for name, grid in grids.items()}
    people = sorted(set().union(*last.values()))
    values = [[cells.get(person, math.nan) for cells in last.values()] for person in people]
    return people, list(last), np.array(values)


def prediction_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw people x shares, where a method's devices report some. Of the first seed."""
    for place, name in enumerate(frame.methods):
        people, names, values = shares(frame.of(name)[0])
        if people:
            unused = [one for one, column in zip(names, values.T, strict=True) if not column.any()]
            said = f"Of use to nobody: {', '.join(unused)}." if unused else "Each is of use."
            title = f"{name}: what each person's predictions owe to what{frame.of_seed}"
            figure = f"{frame.key}shares_{place + 1}"
            yield _share_map(figure, title, people, names, values, said)


def _share_map(
    name: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    meaning: str = "The darker, the better.",
) -> Drawn:
    with matplotlib.rc_context(LOOK):
        labels = [short_name(column, 16) for column in columns]
        upright = max(map(len, labels)) * 0.085 > (WIDTH - 1.6) / len(labels)
        top = 0.08 * max(map(len, labels)) if upright else 0.15
        figure = Figure(figsize=(WIDTH, 0.75 + top + height(rows)), layout="constrained")
        axes = figure.add_subplot()
        colours = matplotlib.colormaps["Blues"].with_extremes(bad=LACKING)
        image = axes.imshow(
            values, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        name_rows(axes, rows)
        axes.set_xticks(range(len(labels)), labels, rotation=90 if upright else 0, fontsize=8)
        axes.xaxis.tick_top()
        bare(axes)
        if len(columns) <= _MOST_NUMBERED and len(rows) <= _LONG:
            for (row, column), value in np.ndenumerate(values):
                ink = "#ffffff" if value > 0.7 else "#000000"
                text = "" if math.isnan(value) else f"{value:.2f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=ink)
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=40, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7.5, length=2)
    known = np.isfinite(values)
    lacking = "" if known.all() else " Grey: nothing to measure."
    low, high = (values[known].min(), values[known].max()) if known.any() else (math.nan,) * 2
    words = (
        f"{len(rows)} rows by {len(columns)} columns ({', '.join(columns)}), from {low:.2f} to "
        f"{high:.2f}. {meaning}{lacking} The numbers are in tables/."
    )
    return drawn(name, title, words, figure)


def height(rows: Sequence[str]) -> float:
    """Return how high rows are together, in inches."""
    return _ROW * min(len(rows), _LONG) + 0.03 * max(0, len(rows) - _LONG)


def name_rows(axes: Any, rows: Sequence[str]) -> None:
    """Name rows at the left, of many every few."""
    step = math.ceil(len(rows) / _LONG)
    names = [short_name(row, 16) for row in rows[::step]]
    axes.set_yticks(range(0, len(rows), step), names, fontsize=8)


def bare(axes: Any) -> None:
    """Take away frame and ticks."""
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
