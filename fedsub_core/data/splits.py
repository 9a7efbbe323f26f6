"""Training and test parts of one client's samples.

The protocols: ``stratified`` draws random windows of every class, as the paper does, and leaks
where windows overlap; ``blocked`` cuts every class in time and drops the windows that would reach
across; ``unseen`` holds whole clients out (:mod:`fedsub_core.data.held_out`). ``grouped`` tests
whole groups, where a file has some (:mod:`fedsub_core.data.grouped`). ``given`` is as the file says
(:mod:`fedsub_core.data.given`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedsub_core.config.tested import Fold
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import different, same_as
from fedsub_core.data.given import given_parts
from fedsub_core.data.grouped import grouped_fold, grouped_tests, several_groups
from fedsub_core.data.windows import (
    clear_of,
    far_apart,
    fenced,
    first_alike,
    overlaps,
    time_known,
    window_places,
    window_seconds,
)
from fedsub_core.errors import DataError
from fedsub_core.seeds import derive_seed

SplitKind = Literal["stratified", "blocked", "grouped", "given"]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def split(
    client: ClientData,
    card: Card,
    kind: SplitKind,
    test_share: float,
    seed: int,
    fold: Fold | None = None,
) -> tuple[IntArray, IntArray]:
    """Return the sample indices of the training part and of the test part, each ascending.

    Parameters
    ----------
    card : gives window length, overlap and whether the file is in time order.
    kind : ``stratified``: every class gives `test_share` of its samples, drawn at random.
        ``blocked``: every class gives the last `test_share` of its samples in time; of the
        others, those whose window overlaps a test window of any class in time are dropped.
        ``grouped``: whole groups are tested, the others trained, without those that overlap or
        repeat a tested one; a client with one group is split as ``blocked``.
        ``given``: as the file's ``parts`` say, less training samples as those.
    test_share : of each class, in (0, 1). Rounded to samples, but a class of two or more keeps one
        on each side.
    seed : of the run, used by ``stratified`` alone.
    fold : what is tested, of each class or of the groups, instead of the share; None: the share.

    Notes
    -----
    A class that cannot fill both parts (one sample; for ``blocked`` also one too short for the
    gap) goes into training: a class that is tested is one the client could learn, unless the
    gaps around other classes' test windows took every training sample of it.

    Samples that are the same are on one side, whatever their labels: ``stratified`` draws of each
    class among the first of its copies, and the others go where that goes; ``blocked`` drops
    training samples that are the same as a tested one. So are windows that begin at one time, as
    those of two devices do that record at once (:func:`fedsub_core.data.windows.first_alike`).

    Where the file has no ``t``, or none in seconds, or no window length is known, ``blocked``
    counts windows instead of seconds: ``ceil(overlap / (1 - overlap))`` are dropped at a boundary,
    across classes where the order is known to be that in time, within each class elsewhere.

    Raises DataError where the client would have no training or no test sample.
    """
    tested = _Tested(test_share, fold)
    if kind == "stratified":
        train, test = _stratified(client, card, tested, seed)
    elif kind == "grouped" and (fold or several_groups(client)):
        train, test = _grouped(client, card, tested)
    elif kind in ("blocked", "grouped"):
        train, test = _blocked(client, card, tested)
    elif kind == "given":
        train, _, test = given_parts(client, card)
    else:
        raise ValueError(f"split {kind!r} is not one of {', '.join(get_args(SplitKind))}")
    if not train.any() or not test.any():
        change = "its parts" if kind == "given" else "fold" if fold else "test-share"
        counts = int(train.sum()), int(test.sum())
        raise _one_sided(client, kind, counts, _why(client, card, kind), change)
    return np.flatnonzero(train), np.flatnonzero(test)


def _one_sided(
    client: ClientData, kind: SplitKind, counts: tuple[int, int], why: str, change: str
) -> DataError:
    return DataError(
        f"client {client.client!r}: a {kind} split of its {len(client.y)} samples leaves "
        f"{counts[0]} for training and {counts[1]} for testing; expected one of each at least{why}."
        f" Leave this client out, give it more samples or change {change}."
    )


def split_kind(wanted: str, client: ClientData, card: Card) -> SplitKind:
    """Return how a client's samples are split where the run's ``split`` is `wanted`.

    ``auto``, and ``unseen`` for whoever has joined, split by groups where the file has them, and
    in time where the card says that files
    are in order of time or that windows overlap, or the client's own ``t`` shows that they do.
    Where there is ``t`` but it cannot show that, for want of a window's length or of seconds, the
    order is known and the split is in time, too. So it is, in the order of the file, where the
    card says that nobody knows whether samples overlap, and there is no ``t``.

    Raises DataError where groups or parts are wanted that the file does not have.
    """
    if wanted in ("stratified", "blocked"):
        return "stratified" if wanted == "stratified" else "blocked"
    if wanted == "grouped" and not several_groups(client):
        raise DataError(
            f"client {client.client!r}: split = grouped: got "
            f"{'no group' if client.group is None else 'one group'} in its file, expected two "
            "recordings, days or sessions at least. Import it with --split-by, or set split = auto"
        )
    if wanted == "given":
        if client.parts is None:
            raise DataError(
                f"client {client.client!r}: split = given: got no parts in its file, expected the "
                "part of each sample. Import it with --part, or set split = auto"
            )
        return "given"
    if client.group is not None:
        return "grouped"
    in_time = card.time_ordered or bool(card.overlap)
    if client.t is None:
        in_time |= card.overlap is None
    elif not in_time:
        unknown = window_seconds(client, card) is None or far_apart(client, card)
        in_time = unknown or bool(overlaps(client, card).any())
    return "blocked" if in_time else "stratified"


@dataclass(frozen=True)
class _Tested:
    """What is tested of a class: a share, or one of several folds."""

    share: float
    fold: Fold | None

    def last_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return a class's rows as trained and tested: its last ones, or those of the fold."""
        if self.fold is None:
            head, tail = np.split(rows, [len(rows) - tested_count(len(rows), self.share)])
            return head, tail
        number, of = self.fold
        chunks = np.array_split(rows, of) if len(rows) > 1 else [rows[:0]] * of
        tested = chunks[number - 1]
        return rows[~np.isin(rows, tested)], tested


def _stratified(
    client: ClientData, card: Card, tested: _Tested, seed: int
) -> tuple[BoolArray, BoolArray]:
    rng = split_rng(seed, client.client, "split")
    test, first = np.zeros(len(client.y), np.bool_), first_alike(client, card)
    own = different(first, len(client.y))
    for label in np.unique(client.y[own]):
        rows = rng.permutation(np.flatnonzero(own & (client.y == label)))
        test[tested.last_of(rows[::-1])[1]] = True
    test = same_as(first, test)
    return ~test, test


def _blocked(client: ClientData, card: Card, tested: _Tested) -> tuple[BoolArray, BoolArray]:
    when, width = window_places(client, card)
    order, first = np.argsort(when, kind="stable"), client.first_copies
    test = np.zeros(len(client.y), np.bool_)
    for label in np.unique(client.y):
        rows = order[client.y[order] == label]
        head, tail = tested.last_of(rows)
        apart = clear_of(when[head], when[tail], width)
        if first is not None:
            apart &= ~np.isin(first[head], first[tail])
        # Where the gap would eat all of a short class, the class is trained and not tested.
        if apart.any():
            test[tail] = True
    return ~same_as(first, test) & clear_of(when, when[test], width), test


def _grouped(client: ClientData, card: Card, tested: _Tested) -> tuple[BoolArray, BoolArray]:
    (when, width), none = fenced(client, card), np.zeros(len(client.y), np.bool_)
    if tested.fold is None:
        test = grouped_tests(client, tested.share, ~none, none, none)
    else:
        test = grouped_fold(client, tested.fold)
    return ~same_as(client.first_copies, test) & clear_of(when, when[test], width) & ~test, test


def _why(client: ClientData, card: Card, kind: SplitKind) -> str:
    """Return why a client cannot be split, as a clause; "" where its few samples say it."""
    if len(client.y) > 1 and client.first_copies is not None and not client.first_copies.any():
        return ", but all its samples are the same"
    if kind != "stratified" and client.t is not None and len(client.t) > 1:
        lasts, length = float(np.ptp(client.t)), window_seconds(client, card)
        if lasts == 0:
            return f", but all its t are {client.t[0]:g}, as if all windows were one"
        if time_known(client, card) == "seconds from t" and length is not None:
            return f", but by t it lasts {lasts:g} s and a window {length:g} s"
    most = np.bincount(client.y).max()
    return "" if most > 1 else ", but no class has two"


def split_rng(seed: int, client: str, purpose: str) -> np.random.Generator:
    """Return the stream of a client's split."""
    return np.random.default_rng(derive_seed(seed, client, 0, purpose))


def tested_count(n: int, share: float) -> int:
    """Return the number of `n` that are tested: nearest to the share, one left on each side."""
    return min(max(math.floor(n * share + 0.5), 1), n - 1)
