"""Training and test parts of a client's samples whose file grew: no sample changes sides.

A model that has trained on a sample must never be tested on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedsub_core.config.tested import Fold
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import different, same_as
from fedsub_core.data.grouped import grouped_tests
from fedsub_core.data.splits import (
    BoolArray,
    IntArray,
    split,
    split_kind,
    split_rng,
    tested_count,
)
from fedsub_core.data.windows import clear_of, fenced, first_alike, window_places


def split_grown(
    client: ClientData,
    card: Card,
    wanted: str,
    test_share: float,
    seed: int,
    sizes: Sequence[int],
    fold: Fold | None = None,
) -> tuple[IntArray, IntArray]:
    """Return training and test indices of a file that had `sizes` samples when it was looked at.

    Parameters
    ----------
    client, card, test_share, seed : of :func:`split`.
    wanted : the run's ``split``; ``auto`` chooses by what was there at each look alone.
    sizes : ascending; the last is the number of samples now. The first ``sizes[i]`` samples are
        split as if the file ended there, the first of all by `fold`.

    Notes
    -----
    Of the new samples of a class, as many are tested as bring the class to `test_share`: drawn at
    random (``stratified``) or the last in time (``blocked``). Of new groups whole ones are tested;
    further samples of an old group go where it is, to training where it is on both sides. New test
    windows that overlap one trained on before, and new training windows that overlap a test window,
    are dropped. So are, where the file is split in time or by groups, new samples that are the same
    as one of the other part; else they go where that is.

    Raises DataError where the first part leaves no training or no test sample.
    """
    if list(sizes) != sorted(set(sizes)) or sizes[-1] != len(client.y):
        raise ValueError(f"got sizes {list(sizes)}, expected ascending up to {len(client.y)}")
    first = _head(client, sizes[0])
    kind = split_kind(wanted, first, card)
    if kind == "given":  # what comes says its part, too
        return split(client, card, kind, test_share, seed)
    trained, tested = split(first, card, kind, test_share, seed, fold)
    train, test = np.zeros(len(client.y), np.bool_), np.zeros(len(client.y), np.bool_)
    train[trained], test[tested] = True, True
    for old, new in pairwise(sizes):
        head, fresh = _head(client, new), np.arange(new) >= old
        kind, (place, width) = split_kind(wanted, head, card), window_places(head, card)
        if kind != "stratified":
            if kind == "grouped":
                place, width = fenced(head, card)
                added = grouped_tests(head, test_share, fresh, train[:new], test[:new])
            else:
                order = partial(_in_time, place)
                added = _added_tests(head.y, test[:new], fresh, test_share, order)
            copies = head.first_copies
            added &= clear_of(place, place[train[:new]], width) & ~same_as(copies, train[:new])
            test[:new] |= added
            apart = clear_of(place, place[test[:new]], width) & ~same_as(copies, test[:new])
            train[:new] |= fresh & ~added & apart
        else:
            rng = split_rng(seed, head.client, f"split from sample {old}")
            _draw(head, card, test_share, fresh, train[:new], test[:new], rng)
    return np.flatnonzero(train), np.flatnonzero(test)


def _draw(
    head: ClientData,
    card: Card,
    share: float,
    fresh: BoolArray,
    train: BoolArray,
    test: BoolArray,
    rng: np.random.Generator,
) -> None:
    """Draw the tests among the `fresh` samples; all of them come into `train` or `test`."""
    copies = first_alike(head, card)
    drawn = fresh & different(copies, len(head.y))
    added = _added_tests(head.y, test, drawn, share, rng.permutation)
    test |= added
    train |= fresh & ~added
    if copies is not None:
        train[:] = np.where(fresh, train[copies], train)
        test[:] = np.where(fresh, test[copies], test)


def _in_time(place: NDArray[np.float64], rows: IntArray) -> IntArray:
    return rows[np.argsort(place[rows], kind="stable")]


def _added_tests(
    y: IntArray, tested: BoolArray, new: BoolArray, share: float, order: Callable[..., IntArray]
) -> BoolArray:
    """Choose the tests among the `new` samples, class by class: the last by their `order`."""
    added = np.zeros(len(y), np.bool_)
    for label in np.unique(y[new]):
        of_class = y == label
        rows = np.flatnonzero(new & of_class)
        wanted = tested_count(int(of_class.sum()), share) - int((tested & of_class).sum())
        count = min(max(wanted, 0), len(rows))
        added[order(rows)[len(rows) - count :]] = True
    return added


def _head(client: ClientData, n: int) -> ClientData:
    t = None if client.t is None else client.t[:n]
    since = None if client.since is None else client.since[:n]
    group = None if client.group is None else client.group[:n]
    parts = None if client.parts is None else client.parts[:n]
    grown = replace(client, x=client.x[:n], y=client.y[:n], t=t, since=since, group=group)
    return replace(grown, parts=parts)
