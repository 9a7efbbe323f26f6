"""A source of rows without some of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.source import Rows, Source


class NarrowedSource:
    """Rows with some of a source's features; a :class:`fedsub_data.importing.source.Source`.

    Parameters
    ----------
    source : where the rows come from; stays open.
    features : those that are kept, in the source's order.
    notes : why the others are not, in sentences.
    """

    def __init__(self, source: Source, features: Sequence[str], notes: Sequence[str]) -> None:
        self._source = source
        #: Indices of the features that are kept.
        self.at = [source.features.index(one) for one in features]
        self.features = tuple(features)
        self.rising = tuple(one for one in source.rising if one in features)
        self.labels, self.people = source.labels, source.people
        self.time, self.ticks = source.time, source.ticks
        both = source.features, features
        before, now = (f"Guessed: {spelt('features', ','.join(of))}." for of in both)
        self.notes = [now if one == before else one for one in source.notes] + list(notes)

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows."""
        for rows in self._source.rows():
            yield replace(rows, x=rows.x[:, self.at])

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return a value's place and the value, in words."""
        return self._source.place(file, row, column)

    def lost(self) -> dict[Why, int]:
        """Return the counts of rows that belong to nobody, by reason."""
        return self._source.lost()
