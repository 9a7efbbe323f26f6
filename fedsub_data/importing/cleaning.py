"""One person's rows, checked: values that are missing or no numbers, time, labels."""

import numpy as np
from numpy.typing import NDArray

from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Dropped, Why, stopped
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

Mask = NDArray[np.bool_]


def cleaned(rows: Rows, source: Source, options: ImportOptions, dropped: Dropped) -> Rows:
    """Return the rows that can be used, in their order; NaN is left where it is interpolated.

    Parameters
    ----------
    dropped : gains what is left out.

    Raises DataError where something is there that the options refuse; it names file, line and
    column.
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
            place = first_place(rows, bad, source, source.time)
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
        place = first_place(rows, none, source, None)
        if options.unlabelled == "stop":
            do = f"{spelt('unlabelled', 'drop')} leaves them out"
            raise stopped("rows without a label", int(none.sum()), place, do)
        dropped.first[Why.UNLABELLED] = place
    return rows


def _columns(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a number for each row and feature: NaN or infinite if any of its values is.

    Of windows [n, F, time] the sum over time.
    """
    return x if x.ndim == 2 else x.sum(axis=2)


def _without(
    rows: Rows, wrong: Mask, why: Why, stop: bool, do: str, source: Source, dropped: Dropped
) -> Rows:
    """Return the rows of which no column is wrong; `wrong` is bool [n, F]."""
    which: Mask = np.asarray(wrong.any(axis=1))
    if not which.any():
        return rows
    column = source.features[int(wrong[which.argmax()].argmax())]
    if stop:
        place = first_place(rows, which, source, column)
        raise stopped(why.value[0], int(which.sum()), place, do)
    place = "" if why in dropped.first else first_place(rows, which, source, column)
    dropped.add(why, rows.person, int(which.sum()), place)
    return rows.part(~which)


def first_place(rows: Rows, which: Mask, source: Source, column: str | None) -> str:
    """Return the place, in words, of the first of some rows."""
    first = int(which.argmax())
    where = source.place(int(rows.file[first]), int(rows.row[first]), column)
    return f"{where}, person {rows.person!r}"


def without_labels(rows: Rows, dropped: Dropped) -> Rows:
    """Return the rows that have a label: of features, each a sample."""
    none: Mask = rows.y < 0
    dropped.add(Why.UNLABELLED, rows.person, int(none.sum()))
    return rows.part(~none)
