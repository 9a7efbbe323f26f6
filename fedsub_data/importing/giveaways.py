"""Columns that give away class or person: no features, unless options name them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import NarrowedSource, Rows, Source

#: A column with more values is a measurement.
MOST_VALUES = 50
#: Of the rows, such a share shows that a value is a class's.
_SURE = 0.99
#: Fewer rows of a class, rows of one value, or changes of a value show nothing.
_FEWEST_ROWS, _FEWEST_REPEATED, _FEWEST_CHANGES = 10, 20, 4
#: Rows of one person that are looked at for classes.
_SAMPLED = 2000
#: A message lists no more columns.
_LISTED = 12

ONE_VALUE = "have one value in all rows"
PERSON = "have one value in all rows of a person"
RECORDING = "have one value in all rows of a recording"
TELLS = "tell the classes of other people's rows"
FOLLOWS = "change only where the class does"


class Giveaways:
    """Comparison of each guessed feature with classes, people and recordings.

    `source`: its features are compared, unless the options name them.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source = source
        count = 0 if options.named_features else len(source.features)
        self._columns = [_Column() for _ in range(count)]
        self._people = 0

    def add(self, rows: Rows) -> None:
        """Count one person's rows."""
        half, self._people = self._people % 2, self._people + 1
        labelled = np.flatnonzero(rows.y >= 0)
        some = labelled[:: max(1, len(labelled) // _SAMPLED)]
        for i, column in enumerate(self._columns):
            values = rows.x[:, i]
            if values.ndim == 2:  # windows; a code is the same in all of one
                values = values[:, values.shape[1] // 2]
            column.sort(values[some], rows.y[some], half, len(self._source.labels))
            column.compare(values, rows)

    def without(self, where: str) -> NarrowedSource | None:
        """Return the source without columns that give class or person away; None without any.

        Raises DataError where no feature is left.
        """
        if self._people < 2:
            return None  # a device's own rows show nothing of others
        names = self._source.features
        columns = dict(zip(names, self._columns, strict=False))  # of none, where they are named
        shown = {name: column.shown() for name, column in columns.items()}
        # One column may be a sensor that shows one class well: lying, say. All of them tell more.
        telling = len(set().union(*shown.values())) >= max(1, len(self._source.labels) - 1)
        lost_by: dict[str, list[str]] = {}
        for name, column in columns.items():
            tells = TELLS if telling and shown[name] else ""
            if why := column.constant() or tells or column.follows():
                lost_by.setdefault(why, []).append(name)
        if not lost_by:
            return None
        lost = [name for those in lost_by.values() for name in those]
        kept = [name for name in names if name not in lost]
        notes = [
            f"Left out, as they {why}: {listed(map(repr, those), _LISTED)}."
            for why, those in lost_by.items()
        ]
        keep = shlex.quote(self._all(lost))
        if not kept:
            reasons = " ".join(notes)
            raise DataError(
                f"{where}: got no feature that does not give away class or person, expected one at "
                f"least. {reasons} Say which are features: {spelt('features', keep)} keeps all"
            )
        notes.append(f"To keep them: {spelt('features', keep)}.")
        return NarrowedSource(self._source, kept, notes)

    def _all(self, lost: Sequence[str]) -> str:
        """Return the value of ``features`` that keeps all columns; of an npz the array's name."""
        begin, end = f"Guessed: {spelt('features', '|')}.".split("|")
        names = self._source.features
        guesses = [note for note in self._source.notes if note.startswith(begin)]
        if guesses and guesses[0] != f"{begin}{','.join(names)}{end}":
            return guesses[0].removeprefix(begin).removesuffix(end)
        return ",".join(names if len(names) <= MOST_VALUES else [*lost[:_LISTED], "..."])


@dataclass
class _Column:
    """Counts of one column.

    Parameters
    ----------
    counts : rows of each class by value, int64 [classes], of either half of the people; None where
        there are too many values.
    steady : whether it never changed in all rows of a person, and of a recording.
    values : of those people and recordings, the first two that differ.
    repeated : rows beyond the first, of people and of recordings.
    changes, following : how often it changes, and how often where the class does; ``people`` in
        whom it changes; ``rows``, ``bouts`` : how many, and of how many stretches of one class.
    """

    counts: tuple[dict[float, NDArray[np.int64]], dict[float, NDArray[np.int64]]] | None = field(
        default_factory=lambda: ({}, {})
    )
    steady: list[bool] = field(default_factory=lambda: [True, True])
    values: set[float] = field(default_factory=set)
    repeated: list[int] = field(default_factory=lambda: [0, 0])
    changes: int = 0
    following: int = 0
    people: int = 0
    rows: int = 0
    bouts: int = 0

    def sort(
        self, values: NDArray[np.float32], y: NDArray[np.int64], half: int, classes: int
    ) -> None:
        """Count labelled rows of one person by value and class."""
        if self.counts is None:
            return
        there = np.isfinite(values)
        seen, code = np.unique(values[there], return_inverse=True)
        known = self.counts[0].keys() | self.counts[1].keys()
        if len(known | set(seen.tolist())) > MOST_VALUES:
            self.counts = None
            return
        sums = np.bincount(code * classes + y[there], minlength=len(seen) * classes)
        for value, row in zip(seen.tolist(), sums.reshape(-1, classes), strict=True):
            self.counts[half][value] = self.counts[half].get(value, 0) + row

    def compare(self, values: NDArray[np.float32], rows: Rows) -> None:
        """Compare each row of one person with the one before."""
        if self.counts is None and not self.steady[1] and not self._follows():
            return
        if np.isfinite(values).all():
            y, file = rows.y, rows.file
        else:
            there = np.isfinite(values)
            values, y, file = values[there], rows.y[there], rows.file[there]
        if not len(values):
            return
        differs, within = np.diff(values) != 0, np.diff(file) == 0
        changed, new = differs & within, (np.diff(y) != 0) & within
        self.steady[0] &= not differs.any()
        self.steady[1] &= not changed.any()
        if self.steady[1] and len(self.values) < 2:
            self.values |= set(np.unique(values)[:2].tolist())
        self.repeated[0] += len(within)
        self.repeated[1] += int(within.sum())
        self.changes += int(changed.sum())
        self.following += int((changed & new).sum())
        self.people += bool(changed.any())
        self.rows += len(values)
        self.bouts += 1 + int((new | ~within).sum())

    def shown(self) -> set[int]:
        """Return the classes that the column gives away, in either half of the people."""
        if self.counts is None:
            return set()
        return _given_away(*self.counts) & _given_away(*self.counts[::-1])

    def constant(self) -> str:
        """Return the words for a column that never changes in some rows; "" if it does."""
        shown = [count >= _FEWEST_REPEATED for count in self.repeated]
        if self.steady[0] and shown[0]:
            return PERSON if len(self.values) > 1 else ONE_VALUE
        return RECORDING if self.steady[1] and shown[1] else ""

    def follows(self) -> str:
        """Return the words for a column that changes only where the class does; "" if not."""
        shown = (
            self.people > 1
            and self.changes >= _FEWEST_CHANGES
            and self.rows >= _FEWEST_ROWS * self.bouts
        )
        return FOLLOWS if shown and self._follows() else ""

    def _follows(self) -> bool:
        return self.following >= _SURE * self.changes


def _given_away(
    known: Mapping[float, NDArray[np.int64]], others: Mapping[float, NDArray[np.int64]]
) -> set[int]:
    """Return the classes of `others`' rows that values give away, as `known` rows show them.

    Each value means its most frequent class. All classes are given away if nearly all rows of each
    value have the class that it means. Else one is if all its rows, and no others, have values
    that mean it.
    """
    met = {value: rows for value, rows in others.items() if value in known and known[value].any()}
    total = sum(int(rows.sum()) for rows in others.values())
    if not met:
        return set()
    means = np.array([known[value].argmax() for value in met])
    rows = np.stack(list(met.values()))
    if 2 * rows.sum() < total:
        return set()
    own = rows[np.arange(len(means)), means]
    actual = rows.sum(axis=0)
    meant, right = (
        np.bincount(means, weights, minlength=len(actual)) for weights in (rows.sum(axis=1), own)
    )
    often = np.minimum(actual, actual.sum() - actual) >= _FEWEST_ROWS
    pure = bool((own >= _SURE * rows.sum(axis=1)).all())
    if pure and often.any() and np.isin(np.flatnonzero(often), means).all():
        return set(range(len(actual)))
    return set(np.flatnonzero(often & (right == actual) & (right == meant)).tolist())
