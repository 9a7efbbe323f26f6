"""The table of answers: a row for each window."""

from collections.abc import Iterator, Sequence
from typing import Any

from fedsub.recordings.answers import UNKNOWN, Answered
from fedsub.recordings.day import Day, moment


def head(classes: Sequence[str]) -> list[str]:
    """Return the names of the table's columns.

    A class may be called as a column is, so the columns of classes say what they are.
    """
    first = ["recording", "start", "end", "class", "probability"]
    return [*first, *(f"probability {name}" for name in classes)]


def rows_of_answers(answered: Answered, classes: Sequence[str]) -> Iterator[list[Any]]:
    """Yield a row for each window: texts, and probabilities as float32."""
    names, begins = (*classes, UNKNOWN), answered.begins.tolist()
    for label, begin, share in zip(answered.label, begins, answered.shares, strict=True):
        times = (moment(at, answered.tick) for at in (begin, begin + answered.length_s))
        yield [answered.recording, *times, names[label], share.max(), *share]


def answers_table(answered: Sequence[Answered], classes: Sequence[str], notes: list[str]) -> Any:
    """Return the table as a DataFrame; times in numbers are numbers, in the recording's unit."""
    import pandas as pd

    day, rows = Day(classes), list[list[Any]]()
    for block in answered:
        day.add(block)
        rows += rows_of_answers(block, classes)
    table = pd.DataFrame(rows, columns=head(classes))
    dates = answered[0].tick is None
    for key in ("start", "end"):
        table[key] = pd.to_datetime(table[key]) if dates else table[key].astype(float)
    table.attrs = {"notes": notes, "minutes": day.minutes()}
    return table
