"""People and classes one by one, as rows of text."""

import math

import numpy as np

from fedsub.report.attendance import ABSENT, NOT_ASKED, STATES, TESTED, UNKNOWN, Attendance
from fedsub.report.frame import Frame
from fedsub.report.maps import class_means, confusion, last_f1, people_scores
from fedsub.report.rows import NONE, Rows, number

#: Of more of them the CSV beside the page has the numbers.
_MOST_PEOPLE_CLASSES = 60


def people(frame: Frame) -> Rows:
    """Return the score of everybody by method, and of own heads."""
    names, columns, scores = people_scores(frame)
    rows = [(name, *map(number, row)) for name, row in zip(names, scores.tolist(), strict=True)]
    what = "Mean absolute error" if frame.score == "mae" else "Macro F1"
    return Rows(f"{what} of every person in the last evaluated round", ("person", *columns), rows)


def splits(frame: Frame) -> Rows | None:
    """Return how everybody's samples were divided; None where the run does not say."""
    rows = [
        (name, one.split, *(f"{n:,}" for n in (one.training, one.validation, one.testing,
                                               one.neither, one.repeated)))
        for name, one in frame.notes.splits.items()
    ]  # fmt: skip
    head = ("person", "split", "training", "validation", "testing", "neither", "repeated")
    caption = (
        "How every person's samples were divided: those in no part lie in the gap around "
        "tested windows or were left out; repeated are the same as an earlier one"
    )
    return Rows(caption, head, rows, (1,)) if rows else None


def absent(frame: Frame) -> Rows:
    """Return in how many rounds each person was what, where it was not tested in all of them."""
    rows = []
    for name in frame.methods:
        found = Attendance.of(frame.of(name)[0])
        for person, states in zip(found.people, found.states, strict=True):
            here = states[states != UNKNOWN]
            if (here == TESTED).all():
                continue
            counts = (str(int((here == number).sum())) for number in (TESTED, *ABSENT, NOT_ASKED))
            tested = np.flatnonzero(states == TESTED)
            last = str(found.rounds[tested[-1]]) if len(tested) else NONE
            rows.append((name, person, *counts, last))
    head = ("method", "person", STATES[TESTED], *(STATES[number] for number in ABSENT),
            STATES[NOT_ASKED], "last tested in round")  # fmt: skip
    caption = "In how many rounds people were so, of those who were not tested in every one"
    return Rows(caption + frame.of_seed, head, rows, (1,))


def classes(frame: Frame) -> Rows:
    """Return F1 of every class by method."""
    labels, means = class_means(frame)
    rows = [
        (frame.class_name(label), *(number(None if math.isnan(f1) else f1) for f1 in row))
        for label, row in zip(labels, means.tolist(), strict=True)
    ]
    caption = (
        "F1 of every class in the last evaluated round, mean over people in whose test or "
        f"predictions it is; {NONE} where it is in nobody's"
    )
    return Rows(caption, ("class", *frame.methods), rows)


def people_classes(frame: Frame) -> Rows | None:
    """Return F1 of every person and class by method; None of more than a page of them."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    for trace in frame.traces:
        people, labels, values = last_f1(trace)
        for (row, column), f1 in np.ndenumerate(values):
            if math.isfinite(f1):
                of = found.setdefault((people[row], labels[column]), {})
                of.setdefault(trace.method, []).append(float(f1))
    rows = [
        (
            person,
            frame.class_name(label),
            *(number(float(np.mean(of[name])) if name in of else None) for name in frame.methods),
        )
        for (person, label), of in sorted(found.items())
    ]
    caption = "F1 of every person and class in the last evaluated round"
    kept = 0 < len(rows) <= _MOST_PEOPLE_CLASSES
    return Rows(caption, ("person", "class", *frame.methods), rows, (1,)) if kept else None


def confusions(frame: Frame) -> list[Rows]:
    """Return each method's confusion matrix, rows summing to 1, where it was counted."""
    found = []
    for name in frame.methods:
        trace = frame.of(name)[0]
        true, predicted, values = confusion(frame, trace)
        people = [str(row.people) for row in trace.confusion.values()]
        each = zip(true, people, values.tolist(), strict=True)
        rows = [(one, many, *map(number, row)) for one, many, row in each]
        caption = f"{name}: share of each class's test samples by predicted class{frame.of_seed}"
        if rows:
            found.append(Rows(caption, ("class as labelled", "people", *predicted), rows))
    return found
