"""Splitting a file that grew: no sample ever changes sides.

A model that has trained on a sample must never be tested on it. So what a device had is split as
it was, and only the new samples are dealt out, so that every class keeps the tested share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import different, same_as
from fedsub_core.data.moments import first_alike
from fedsub_core.data.splits import (
    BoolArray,
    IntArray,
    SplitKind,
    split,
    split_kind,
    split_rng,
    tested_count,
)
from fedsub_core.data.windows import clear_of, window_places


def split_grown(
    client: ClientData,
    card: Card,
    wanted: str,
    test_share: float,
    seed: int,
    sizes: Sequence[int],
) -> tuple[IntArray, IntArray]:
    """Return training and test indices of a file that had `sizes` samples when it was looked at.

    Parameters
    ----------
    client, card, test_share, seed
        As for :func:`fedsub_core.data.splits.split`.
    wanted : str
        The run's ``split``. What ``auto`` chooses is decided by what was there at each look, so
        that samples yet to come change nothing of it.
    sizes : sequence of int
        Ascending; the last is the number of samples now. The first ``sizes[i]`` samples are split
        as if the file ended there.

    Notes
    -----
    Of the new samples of a class, as many are tested as bring the class to `test_share`: drawn at
    random (``stratified``) or the last in time (``blocked``). New test windows that overlap one
    trained on before, and new training windows that overlap a test window, are dropped. So are,
    where the file is split in time, new samples that are the same as one of the other part; else
    they go where that is.

    Raises
    ------
    DataError
        Where the first part leaves no training or no test sample.
    """
    if list(sizes) != sorted(set(sizes)) or sizes[-1] != len(client.y):
        raise ValueError(f"got sizes {list(sizes)}, expected ascending up to {len(client.y)}")
    first = _head(client, sizes[0])
    trained, tested = split(first, card, split_kind(wanted, first, card), test_share, seed)
    train, test = np.zeros(len(client.y), np.bool_), np.zeros(len(client.y), np.bool_)
    train[trained], test[tested] = True, True
    for old, new in pairwise(sizes):
        head = _head(client, new)
        kind = split_kind(wanted, head, card)
        added = _added_tests(head, test[:new], old, kind, test_share, seed, card)
        fresh = np.arange(new) >= old
        copies = head.first_copies if kind == "blocked" else first_alike(head, card)
        if kind == "blocked":
            place, width = window_places(head, card)
            added &= clear_of(place, place[train[:new]], width) & ~same_as(copies, train[:new])
            test[:new] |= added
            apart = clear_of(place, place[test[:new]], width) & ~same_as(copies, test[:new])
            train[:new] |= fresh & ~added & apart
        else:
            test[:new] |= added
            train[:new] |= fresh & ~added
            if copies is not None:
                train[:new] = np.where(fresh, train[copies], train[:new])
                test[:new] = np.where(fresh, test[copies], test[:new])
    return np.flatnonzero(train), np.flatnonzero(test)


def _added_tests(
    head: ClientData,
    tested: BoolArray,
    old: int,
    kind: SplitKind,
    share: float,
    seed: int,
    card: Card,
) -> BoolArray:
    """Choose the tests among the samples from `old` on, class by class."""
    rng = split_rng(seed, head.client, f"split from sample {old}")
    place, _ = window_places(head, card)
    added = np.zeros(len(head.y), np.bool_)
    drawn = np.arange(len(head.y)) >= old
    if kind == "stratified":
        drawn &= different(first_alike(head, card), len(head.y))
    for label in np.unique(head.y[drawn]):
        rows = np.flatnonzero(drawn & (head.y == label))
        of_class = head.y == label
        wanted = tested_count(int(of_class.sum()), share) - int((tested & of_class).sum())
        count = min(max(wanted, 0), len(rows))
        ordered = (
            rng.permutation(rows)
            if kind == "stratified"
            else rows[np.argsort(place[rows], kind="stable")]
        )
        added[ordered[len(ordered) - count :]] = True
    return added


def _head(client: ClientData, n: int) -> ClientData:
    t = None if client.t is None else client.t[:n]
    since = None if client.since is None else client.since[:n]
    return replace(client, x=client.x[:n], y=client.y[:n], t=t, since=since)
