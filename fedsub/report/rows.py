"""The tables of a page: rows of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsub.report.attendance import (
    ABSENT,
    NOT_ASKED,
    STATES,
    TESTED,
    UNKNOWN,
    Attendance,
)
from fedsub.report.comparing import LOCAL, Pair, differences
from fedsub.report.frame import Frame, Grid
from fedsub.report.maps import class_means, confusion, last_f1, people_scores
from fedsub.report.recovery import LATER, Recovery
from fedsub_core.metrics import GAIN
from fedsub_server.run_folder import humanise_bytes

_NONE = "–"
#: Of more of them the CSV beside the page has the numbers.
_MOST_PEOPLE_CLASSES = 60


@dataclass(frozen=True)
class Rows:
    """A table to read: what it is, its head, its rows, and which columns are words."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = ()


def reached(frame: Frame) -> Rows:
    """Return what methods reached, over people in the last evaluated round."""
    names = ("macro_f1_p10", "macro_f1_std", "macro_f1_min", "macro_f1_max", "weighted_f1")
    rows = []
    for trace in frame.traces:
        one = trace.summary
        rows.append(
            (
                trace.method,
                number(one.macro_f1)
                + ("" if one.macro_f1_ci95 is None else f" ± {one.macro_f1_ci95:.3f}"),
                *(number(getattr(one, name)) for name in (*names, "accuracy", "loss")),
                one.tested_words or _NONE,
                _NONE if one.evaluated_round is None else str(one.evaluated_round),
                str(one.clients) + (f" of {one.people}" if one.people > one.clients else ""),
            )
        )
    head = ("method", "macro F1 ± 95 %", "worst decile", "std", "min", "max", "weighted F1",
            "accuracy", "loss", "tested model", "round", "people")  # fmt: skip
    caption = (
        "Means over people who have test samples, everybody alike, in the last evaluated round; "
        "± is half the 95 % interval (Student t), the worst decile the 10th percentile"
    )
    return Rows(caption, head, rows, (9,))


def by_capacity(frame: Frame) -> Rows | None:
    """Return what people of each capacity reached; None where all hold everything."""
    rows = [
        (trace.method, share, f"{facts['people']:g}", *(number(facts.get(name)) for name in names))
        for trace in frame.traces
        for names in [("macro_f1", "accuracy", "loss")]
        for share, facts in trace.summary.by_capacity.items()
    ]
    head = ("method", "capacity", "people", "macro F1", "accuracy", "loss")
    caption = (
        "Means over the people whose devices hold as much of the model, in the last evaluated round"
    )
    return Rows(caption, head, rows) if rows else None


def beats_local(pairs: Sequence[Pair], gains: Mapping[str, Mapping[str, float]]) -> Rows | None:
    """Return whether each method beats local training, by how much and for how many people.

    Parameters
    ----------
    gains : of :func:`~fedsub.report.comparing.gains`.
    """
    rows = []
    for name, each in gains.items():
        (pair,) = (one for one in pairs if {one.first, one.second} == {name, LOCAL})
        sign = 1 if pair.first == name else -1
        ends = _NONE
        if pair.judged and pair.low is not None and pair.high is not None:
            low, high = sorted((sign * pair.low, sign * pair.high))
            ends = f"{low:+.3f} to {high:+.3f}"
        more, less = (sum(way * gain > 0 for gain in each.values()) for way in (1, -1))
        rows.append(
            (
                name,
                pair.verdict(name),
                f"{round(sign * pair.difference, 3) + 0.0:+.3f}",
                ends,
                f"{more} of {len(each)}",
                f"{less} of {len(each)}",
            )
        )
    head = ("method", "against training alone", "macro F1", "95 % interval", "people who gain",
            "who lose")  # fmt: skip
    caption = "Macro F1 less that of training alone (`local`), mean over the same people"
    return Rows(caption, head, rows, (1,)) if rows else None


def against_local(frame: Frame, most: int | None = None) -> Rows | None:
    """Return who is worse off than with local training, `most` of them; None without `local`."""
    rows = []
    for name in frame.methods:
        if name == LOCAL or LOCAL not in frame.methods:
            continue
        round, each = differences(frame, name, LOCAL)
        worse = sorted((gain, person) for person, gain in each.items() if gain < 0)
        if each:
            people = ", ".join(f"{person} ({gain:+.3f})" for gain, person in worse[:most])
            more = len(worse) - len(worse[:most])
            share = f"{len(worse)} of {len(each)}, {len(worse) / len(each):.0%}"
            rows.append(
                (name, share, str(round), (people or "nobody") + f" and {more} more" * (more > 0))
            )
    head = ("method", "worse than local", "round", "who, and by how much macro F1")
    caption = "People whose macro F1 is lower than with local training" + ", all" * (most is None)
    return Rows(caption, head, rows, (3,)) if rows else None


def against_own(frame: Frame, most: int | None = None) -> Rows | None:
    """Return who is worse off than with the model that devices have without others, beyond noise.

    Devices say by how much, with the interval of a bootstrap over their test samples. Of several
    seeds all are counted, a person in each; None where no method has one.
    """
    rows = []
    for method in frame.methods:
        gain: dict[str, float] = {}
        low: dict[str, float] = {}
        high: dict[str, float] = {}
        round = 0
        for trace in frame.of(method):
            grids = [trace.people.get(name, Grid.of({})) for name in GAIN]
            if not grids[0].rounds:
                continue
            round = grids[0].rounds[-1]
            of = f", seed {trace.seed}" if len(frame.seeds) > 1 else ""
            for kept, grid in zip((gain, low, high), grids, strict=True):
                kept |= {person + of: value for person, value in grid.at(round).items()}
        if not gain:
            continue
        worse = sorted((gain[person], person) for person, end in high.items() if end < 0)
        better = sum(end > 0 for end in low.values())
        people = ", ".join(f"{person} ({value:+.3f})" for value, person in worse[:most])
        more = len(worse) - len(worse[:most])
        rows.append(
            (
                method,
                f"{sum(gain.values()) / len(gain):+.3f}",
                f"{better} of {len(gain)}, {better / len(gain):.0%}",
                f"{len(worse)} of {len(gain)}, {len(worse) / len(gain):.0%}",
                str(round),
                (people or "nobody") + f" and {more} more" * (more > 0),
            )
        )
    head = ("method", "macro F1", "better beyond noise", "worse beyond noise", "round", "who")
    caption = (
        "People's models against those that their devices have without others: trained beside them "
        "for as many rounds and, while samples are held back to judge models, on fewer, so not "
        "`local`; or solved of own samples alone. A "
        "difference is beyond noise where the 95 % interval over a person's own test samples, "
        "overlapping windows drawn together, excludes 0; chance does that for some 3 % either way"
    )
    return Rows(caption, head, rows, (5,)) if rows else None


def costs(frame: Frame) -> Rows:
    """Return what methods cost: bytes of a client in a round, time of all rounds."""
    rows = []
    for trace in frame.traces:
        ways = ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent")
        sent = (humanise_bytes(trace.bytes[w]) if w in trace.bytes else _NONE for w in ways)
        models = (trace.summary.full_models_up_sent, trace.summary.full_models_down_sent)
        rows.append(
            (
                trace.method,
                *sent,
                *map(number, models),
                f"{trace.summary.seconds:,.1f}",
                milliseconds(trace.summary.server_milliseconds),
                memory(trace.summary.memory),
                f"{trace.rounds} of {trace.wanted}",
            )
        )
    head = ("method", "bytes up", "bytes down", "down to evaluate", "models up", "models down",
            "seconds", "server, ms", "memory", "rounds done")  # fmt: skip
    caption = (
        "Bytes of a client in a round, on average, and the same in full float32 models; seconds "
        "of all rounds together; milliseconds of a round that the method's own server half took; "
        "the most memory that the process held, data and libraries included"
    )
    return Rows(caption, head, rows)


def compared(pairs: Sequence[Pair], only: str = "") -> Rows:
    """Return two methods a row, and which is better, if the interval says so; `only` one's."""
    rows = []
    for pair in pairs:
        ends = _NONE if pair.low is None else f"{pair.low:+.3f} to {pair.high:+.3f}"
        verdict = f"{pair.better} is better" if pair.better else "no difference shown"
        difference = f"{pair.difference:+.3f}"
        rows.append((f"{pair.first} less {pair.second}", difference, ends, verdict, str(pair.n)))
    head = ("methods", "macro F1", "95 % interval", "so", "people")
    caption = "Mean difference of macro F1 over the same people"
    whose = f", {only} and the others" if only else ", every two methods"
    return Rows(caption + whose, head, rows, (3,))


def people(frame: Frame) -> Rows:
    """Return macro F1 of everybody by method."""
    names, scores = people_scores(frame)
    rows = [(name, *map(number, row)) for name, row in zip(names, scores.tolist(), strict=True)]
    return Rows(
        "Macro F1 of every person in the last evaluated round", ("person", *frame.methods), rows
    )


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
            last = str(found.rounds[tested[-1]]) if len(tested) else _NONE
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
        f"predictions it is; {_NONE} where it is in nobody's"
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


def recovered(found: Sequence[Recovery], of: str) -> Rows:
    """Return what happened in each round that brought data; `of` says in which seed."""
    rows = [
        (
            one.method,
            str(one.round),
            str(one.people),
            number(one.before),
            number(one.drop),
            "not before the next" if one.rounds is None else str(one.rounds),
            number(one.new),
            number(one.later),
        )
        for one in found
    ]
    head = ("method", "round", "people with more data", "macro F1 before", "drop",
            "rounds until it is back", "F1 of classes that came",
            f"{LATER} rounds later")  # fmt: skip
    title = "Rounds in which people were tested on more data than before"
    return Rows(title + of, head, rows)


def milliseconds(taken: float | None) -> str:
    """Return a time in ms, with one digit, a dash for none."""
    return _NONE if taken is None else f"{taken:,.1f}"


def memory(most: float | None) -> str:
    """Return memory in MB, a dash for none."""
    return _NONE if most is None else f"{most / 1e6:,.0f} MB"


def number(value: float | None) -> str:
    """Return a number with three digits, a dash for none, ``nan`` for one that is none."""
    return _NONE if value is None else f"{value:.3f}"
