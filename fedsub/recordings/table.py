"""The table of answers: a row for each window."""

from collections.abc import Iterator, Sequence
from typing import Any

from fedsub.recordings.answers import UNKNOWN, Answered
from fedsub.recordings.day import Day, moment
from fedsub.recordings.spread import Spread
from fedsub_core.data.card import Card

#: The columns of a window's place, and that of a target's value.
_PLACE, VALUE = ("recording", "start", "end"), "value"


def head(card: Card) -> list[str]:
    """Return the names of the table's columns.

    A class may be called as a column is, so the columns of classes say what they are.
    """
    if card.target is not None:
        return [*_PLACE, VALUE]
    return [*_PLACE, "class", "probability", *(f"probability {name}" for name in card.classes)]


def rows_of_answers(answered: Answered, card: Card) -> Iterator[list[Any]]:
    """Yield a row for each window: texts, and probabilities or the value as float32."""
    names, begins = (*card.classes, UNKNOWN), answered.begins.tolist()
    for label, begin, share in zip(answered.label, begins, answered.shares, strict=True):
        times = (moment(at, answered.tick) for at in (begin, begin + answered.length_s))
        said = [] if card.target is not None else [names[label], share.max()]
        yield [answered.recording, *times, *said, *share]


def summary_of(card: Card) -> Day | Spread:
    """Return the summary of answers as they come: a day in classes, or the spread of values."""
    return Day(card.classes) if card.target is None else Spread(card.target)


def answers_table(answered: Sequence[Answered], card: Card, notes: list[str]) -> Any:
    """Return the table as a DataFrame; times in numbers are numbers, in the recording's unit."""
    import pandas as pd

    summary, rows = summary_of(card), list[list[Any]]()
    for block in answered:
        summary.add(block)
        rows += rows_of_answers(block, card)
    table = pd.DataFrame(rows, columns=head(card))
    dates = answered[0].tick is None
    for key in ("start", "end"):
        table[key] = pd.to_datetime(table[key]) if dates else table[key].astype(float)
    table.attrs = {"notes": notes}
    table.attrs |= {"minutes": summary.minutes()} if isinstance(summary, Day) else {}
    return table
