"""One person's rows, checked: values that are missing or no numbers, time, labels, repetitions."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Dropped, Why, stopped
from fedsub_data.importing.interleaved import interleaved
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

#: Beyond this share of a recording, rows of one time are no accident.
_MOST_REPEATED = 0.25

Mask = NDArray[np.bool_]


def cleaned(rows: Rows, source: Source, options: ImportOptions, dropped: Dropped) -> Rows:
    """Return the rows that can be used, in their order; NaN is left where it is interpolated.

    Parameters
    ----------
    rows : of one person.
    dropped : gains what is left out.

    Raises
    ------
    DataError
        Where something is there that the options refuse; it names file, line and column.
    """
    columns = _columns(rows.x)
    rows = _without(
        rows,
        np.isinf(columns),
        Why.TEXT,
        options.not_numbers == "stop",
        f"Expected numbers. {spelt('not-numbers', 'drop')} leaves such rows out",
        source,
        dropped,
    )
    if rows.t is not None:
        bad = ~np.isfinite(rows.t)
        if bad.any():
            place = _place(rows, bad, source, source.time)
            dropped.add(Why.TIMELESS, rows.person, int(bad.sum()), place)
            rows = rows.part(~bad)
    if options.missing != "interpolate":
        rows = _without(
            rows,
            np.isnan(_columns(rows.x)),
            Why.MISSING,
            options.missing == "stop",
            f"Expected numbers. {spelt('missing', 'drop')} leaves such rows out"
            + (", interpolate fills them" if dropped.signal else ""),
            source,
            dropped,
        )
    none: Mask = rows.y < 0
    if none.any() and (options.unlabelled == "stop" or Why.UNLABELLED not in dropped.first):
        place = _place(rows, none, source, None)
        if options.unlabelled == "stop":
            do = f"{spelt('unlabelled', 'drop')} leaves them out"
            raise stopped("rows without a label", int(none.sum()), place, do)
        dropped.first[Why.UNLABELLED] = place
    return rows


def _columns(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return of each row and feature one number that is NaN or infinite if any of its values is.

    Of windows [n, F, time] the sum over time.
    """
    return x if x.ndim == 2 else x.sum(axis=2)


def _without(
    rows: Rows,
    wrong: Mask,
    why: Why,
    stop: bool,
    do: str,
    source: Source,
    dropped: Dropped,
) -> Rows:
    """Return the rows of which no column is wrong; `wrong` is bool [n, F]."""
    which: Mask = np.asarray(wrong.any(axis=1))
    if not which.any():
        return rows
    column = source.features[int(wrong[which.argmax()].argmax())]
    if stop:
        place = _place(rows, which, source, column)
        raise stopped(why.value[0], int(which.sum()), place, do)
    place = "" if why in dropped.first else _place(rows, which, source, column)
    dropped.add(why, rows.person, int(which.sum()), place)
    return rows.part(~which)


def _place(rows: Rows, which: Mask, source: Source, column: str | None) -> str:
    """Return where the first of some rows stands."""
    first = int(which.argmax())
    where = source.place(int(rows.file[first]), int(rows.row[first]), column)
    return f"{where}, person {rows.person!r}"


def without_labels(rows: Rows, dropped: Dropped) -> Rows:
    """Return the rows that have a label: of features, each a sample."""
    none: Mask = rows.y < 0
    dropped.add(Why.UNLABELLED, rows.person, int(none.sum()))
    return rows.part(~none)


def in_time(rows: Rows, source: Source, options: ImportOptions) -> list[Rows]:
    """Return the recordings of a person's rows, each of one file, in the order of their time.

    A recording begins with each file, and with ``backwards = split`` where time runs backwards.

    Raises
    ------
    DataError
        Where time runs backwards in a file and nothing says what that means.
    """
    assert rows.t is not None
    parts = []
    for file in dict.fromkeys(rows.file.tolist()):
        one = rows.part(rows.file == file)
        assert one.t is not None
        back = np.flatnonzero(np.diff(one.t) < 0)
        if options.backwards == "split":
            parts += [one.part(piece) for piece in _pieces(len(one), back + 1)]
            continue
        if not len(back):
            parts.append(one)
            continue
        order = np.argsort(one.t, kind="stable")
        why_not = interleaved(one, order)
        if options.backwards == "stop" or why_not:
            at = int(back[0]) + 1
            place = source.place(int(file), int(one.row[at]), source.time)
            way = spelt("backwards", "split" if why_not else "sort")
            way += "" if why_not else " puts rows in order of time, split"
            raise stopped(
                f"person {one.person!r}: time runs backwards, {float(one.t[at - 1]):.15g} stands "
                f"before it{'; ' if why_not else ''}{why_not}",
                len(back),
                place,
                f"{way} begins a new recording there",
            )
        parts.append(one.part(order))
    return sorted((part for part in parts if len(part)), key=lambda part: float(_first(part)))


def _pieces(n: int, cuts: NDArray[np.int64]) -> list[slice]:
    ends = [0, *cuts.tolist(), n]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def _first(part: Rows) -> float:
    assert part.t is not None
    return float(part.t[0])


def repeated(rows: Rows, source: Source, options: ImportOptions, dropped: Dropped) -> Rows:
    """Return rows without those of a time that is there already, or spread evenly in time.

    Parameters
    ----------
    rows : of one recording, in order of time; or without time, then whole rows are compared.
    """
    how = options.duplicates
    if rows.t is None:
        if how in ("auto", "keep"):
            return rows
        keyed = np.column_stack([rows.y.astype(np.float32), _flat(rows.x)])
        _, first = np.unique(keyed, axis=0, return_index=True)
        again: Mask = np.ones(len(rows), np.bool_)
        again[first] = False
    else:
        again = np.concatenate(([False], np.diff(rows.t) == 0))
    if not again.any():
        return rows
    if how == "keep":
        return rows.at(_spread(rows.t)) if rows.t is not None else rows
    if how == "auto":
        other = again & (np.diff(_flat(rows.x), axis=0, prepend=np.nan) != 0).any(axis=1)
        if other.sum() > _MOST_REPEATED * len(rows):
            raise stopped(
                "rows of a time that is there already, with other values",
                int(other.sum()),
                _place(rows, other, source, source.time),
                f"If the clock is coarse, {spelt('duplicates', 'keep')} spreads them evenly. If "
                f"devices recorded at once, write a file for each. {spelt('duplicates', 'drop')} "
                "leaves them out",
            )
    place = "" if Why.REPEATED in dropped.first else _place(rows, again, source, source.time)
    if how == "stop":
        what = "rows of a time that is there already" if source.time else "rows that are the same"
        way = f"{spelt('duplicates', 'drop')} leaves them out"
        raise stopped(what, int(again.sum()), place, way)
    dropped.add(Why.REPEATED, rows.person, int(again.sum()), place)
    return rows.part(~again)


def _flat(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x.reshape(len(x), -1)


def _spread(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times in which rows of one time lie evenly up to the next one.

    So does a logger mean it that writes fifty rows with one second. The last ones go on as those
    before them did.
    """
    at, first, count = np.unique(t, return_index=True, return_counts=True)
    if len(at) == 1:
        raise DataError(
            f"got {len(t):,} rows of one time, {at[0]:g}, expected a time that goes on. Name "
            f"another column with {spelt('time')}, or give {spelt('time', 'none')} and "
            f"{spelt('rate')}"
        )
    ends = np.append(at[1:], at[-1] + (at[-1] - at[-2]) * count[-1] / count[-2])
    place = np.arange(len(t)) - np.repeat(first, count)
    spread: NDArray[np.float64] = np.repeat(at, count) + place * np.repeat(
        (ends - at) / count, count
    )
    return spread
