"""Training and test parts of one client's samples, and clients that are held out.

The three protocols: ``stratified`` draws random windows of every class, as the paper does, and
leaks where windows overlap; ``blocked`` cuts every class in time and drops the windows that
would reach across; ``unseen`` holds whole clients out (:func:`unseen_clients`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import different, same_as
from fedsub_core.data.federation import Federation
from fedsub_core.data.moments import first_alike
from fedsub_core.data.windows import (
    clear_of,
    far_apart,
    overlaps,
    time_known,
    window_places,
    window_seconds,
)
from fedsub_core.errors import DataError
from fedsub_core.seeds import derive_seed

SplitKind = Literal["stratified", "blocked"]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def split(
    client: ClientData,
    card: Card,
    kind: SplitKind,
    test_share: float,
    seed: int,
) -> tuple[IntArray, IntArray]:
    """Return the sample indices of the training part and of the test part, each ascending.

    Parameters
    ----------
    client : ClientData
        The samples, n of them.
    card : Card
        Gives window length, overlap and whether the file is in time order.
    kind : {'stratified', 'blocked'}
        ``stratified``: every class gives `test_share` of its samples, drawn at random.
        ``blocked``: every class gives the last `test_share` of its samples in time; of the
        others, those whose window overlaps a test window of any class in time are dropped.
    test_share : float
        Share of each class that is tested, in (0, 1). Rounded to samples, but a class of two or
        more keeps one on each side.
    seed : int
        Seed of the run, used by ``stratified`` alone.

    Notes
    -----
    A class that cannot fill both parts (one sample; for ``blocked`` also one too short for the
    gap) goes into training: a class that is tested is one the client could learn, unless the
    gaps around other classes' test windows took every training sample of it.

    Samples that are the same are on one side, whatever their labels: ``stratified`` draws of each
    class among the first of its copies, and the others go where that goes; ``blocked`` drops
    training samples that are the same as a tested one. So are windows that begin at one time, as
    those of two devices do that record at once (:mod:`fedsub_core.data.moments`).

    Where the file has no ``t``, or none in seconds, or no window length is known, ``blocked``
    counts windows instead of seconds: ``ceil(overlap / (1 - overlap))`` are dropped at a boundary,
    across classes where the order is known to be that in time, within each class elsewhere.
    ``blocked`` is then only as good as the order of the file.

    Raises
    ------
    DataError
        Where the client would have no training or no test sample.
    """
    if kind == "stratified":
        train, test = _stratified(client, card, test_share, seed)
    elif kind == "blocked":
        train, test = _blocked(client, card, test_share)
    else:
        raise ValueError(f"split {kind!r} is not one of 'stratified', 'blocked'")
    if not train.any() or not test.any():
        raise DataError(
            f"client {client.client!r}: a {kind} split of its {len(client.y)} samples leaves "
            f"{int(train.sum())} for training and {int(test.sum())} for testing; expected one of "
            f"each at least{_why(client, card, kind)}. Leave this client out, give it more samples "
            "or change test-share."
        )
    return np.flatnonzero(train), np.flatnonzero(test)


def split_kind(wanted: str, client: ClientData, card: Card) -> SplitKind:
    """Return how a client's samples are split where the run's ``split`` is `wanted`.

    ``auto``, and ``unseen`` for whoever has joined, split in time where the card says that files
    are in order of time or that windows overlap, or the client's own ``t`` shows that they do.
    Where there is ``t`` but it cannot show that, for want of a window's length or of seconds, the
    order is known and the split is in time, too. So it is, in the order of the file, where the
    card says that nobody knows whether samples overlap, and there is no ``t``.
    """
    if wanted in ("stratified", "blocked"):
        return "stratified" if wanted == "stratified" else "blocked"
    in_time = card.time_ordered or bool(card.overlap)
    if client.t is None:
        in_time |= card.overlap is None
    elif not in_time:
        unknown = window_seconds(client, card) is None or far_apart(client, card)
        in_time = unknown or bool(overlaps(client, card).any())
    return "blocked" if in_time else "stratified"


def unseen_clients(
    ids: Iterable[str],
    share: float,
    seed: int,
    by: str = "people",
    capacities: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """Return the ids of the clients that are held out, ascending; at least one, never all.

    The order of `ids` cannot change the result.

    Parameters
    ----------
    by : ``people``, a share of all; ``capacity``, that share of the clients of each capacity, of
        one alone none; ``smallest``, all of the smallest capacity.
    capacities : by client; 1 where it is not named.

    Raises
    ------
    DataError
        If nobody could be held out, or nobody would be left.
    """
    ordered = sorted(set(ids))
    if len(ordered) < 2:
        raise DataError(
            f"holding clients out: got {len(ordered)} client(s), expected two at least. Use "
            "split = 'blocked' or a federation with more clients."
        )
    if by == "people":
        return _drawn(ordered, share, seed, "unseen clients")
    groups: dict[float, list[str]] = {}
    for client in ordered:
        groups.setdefault((capacities or {}).get(client, 1.0), []).append(client)
    if by == "smallest":
        if len(groups) < 2:
            raise DataError(
                f"holding those of the smallest capacity out: got {len(ordered)} clients of "
                f"capacity {min(groups):g}, expected two capacities at least. Set capacities, or "
                "unseen-by = people"
            )
        return tuple(groups[min(groups)])
    drawn = [
        _drawn(own, share, seed, f"unseen clients of capacity {size:g}")
        for size, own in groups.items()
        if len(own) > 1
    ]
    if not drawn:
        raise DataError(
            f"holding a share of each capacity out: got {len(groups)} capacities of "
            f"{len(ordered)} clients, expected one that two have at least. Set unseen-by = people, "
            "or fewer capacities"
        )
    return tuple(sorted(chain.from_iterable(drawn)))


def _drawn(ordered: Sequence[str], share: float, seed: int, purpose: str) -> tuple[str, ...]:
    drawn = split_rng(seed, "", purpose).permutation(len(ordered))
    return tuple(sorted(ordered[i] for i in drawn[: tested_count(len(ordered), share)]))


def check_trainable(federation: Federation) -> None:
    """Refuse a federation in which nothing can be learnt to be told apart.

    A client with a single class is fine (people who lost classes are a scenario of the paper);
    a federation whose clients together hold a single class is not.
    """
    held = sorted(
        {int(label) for data in federation.clients.values() for label in np.unique(data.y)}
    )
    if len(held) < 2:
        names = ", ".join(repr(federation.card.classes[label]) for label in held) or "none"
        raise DataError(
            f"federation {federation.card.name!r}: all {len(federation.clients)} clients together "
            f"hold {len(held)} class ({names}); expected two at least. Add clients or samples of "
            "another class."
        )


def split_rng(seed: int, client: str, purpose: str) -> np.random.Generator:
    """Return the stream of a client's split."""
    return np.random.default_rng(derive_seed(seed, client, 0, purpose))


def tested_count(n: int, share: float) -> int:
    """Return how many of `n` are tested: the nearest to the share, one left on each side."""
    return min(max(math.floor(n * share + 0.5), 1), n - 1)


def thinned(train: IntArray, client: ClientData, share: float, seed: int) -> IntArray:
    """Return the training indices of which only a share of each class is kept, ascending.

    Drawn at random, one sample of each class at least: people who have labelled little.
    """
    if share == 1:
        return train
    rng = split_rng(seed, client.client, "training share")
    kept = []
    for label in np.unique(client.y[train]):
        of_class = rng.permutation(train[client.y[train] == label])
        kept.append(of_class[: max(1, math.floor(len(of_class) * share + 0.5))])
    return np.sort(np.concatenate(kept))


def labelled(
    train: IntArray, client: ClientData, first: BoolArray, share: float, most: float, seed: int
) -> IntArray:
    """Return the training indices without those of classes that the person has not labelled.

    With probability `share` a person lacks some: 1 to `most` of the classes that it has at first,
    each number alike; one of these is always left, and so are classes that come later. Drawn for
    each person alone, so that a device needs to know nobody else. `first` bool [n]: which samples
    are there at first.
    """
    classes = np.unique(client.y[train[first[train]]])
    fewest, up_to = 1, min(math.floor(most * len(classes)), len(classes) - 1)
    rng = split_rng(seed, client.client, "unlabelled classes")
    if rng.random() >= share or up_to < fewest:
        return train
    lacking = rng.permutation(classes)[: rng.integers(fewest, up_to + 1)]
    return train[~np.isin(client.y[train], lacking)]


def _stratified(
    client: ClientData, card: Card, share: float, seed: int
) -> tuple[BoolArray, BoolArray]:
    rng = split_rng(seed, client.client, "split")
    test, first = np.zeros(len(client.y), np.bool_), first_alike(client, card)
    own = different(first, len(client.y))
    for label in np.unique(client.y[own]):
        rows = rng.permutation(np.flatnonzero(own & (client.y == label)))
        test[rows[: tested_count(len(rows), share)]] = True
    test = same_as(first, test)
    return ~test, test


def _blocked(client: ClientData, card: Card, share: float) -> tuple[BoolArray, BoolArray]:
    when, width = window_places(client, card)
    order, first = np.argsort(when, kind="stable"), client.first_copies
    test = np.zeros(len(client.y), np.bool_)
    for label in np.unique(client.y):
        rows = order[client.y[order] == label]
        head, tail = np.split(rows, [len(rows) - tested_count(len(rows), share)])
        apart = clear_of(when[head], when[tail], width)
        if first is not None:
            apart &= ~np.isin(first[head], first[tail])
        # Where the gap would eat all of a short class, the class is trained and not tested.
        if apart.any():
            test[tail] = True
    return ~same_as(first, test) & clear_of(when, when[test], width), test


def _why(client: ClientData, card: Card, kind: SplitKind) -> str:
    """Return why a client cannot be split, as a clause; "" where its few samples say it."""
    if len(client.y) > 1 and client.first_copies is not None and not client.first_copies.any():
        return ", but all its samples are the same"
    if kind == "blocked" and client.t is not None and len(client.t) > 1:
        lasts, length = float(np.ptp(client.t)), window_seconds(client, card)
        if lasts == 0:
            return f", but all its t are {client.t[0]:g}, as if all windows were one"
        if time_known(client, card) == "seconds from t" and length is not None:
            return f", but by t it lasts {lasts:g} s and a window {length:g} s"
    most = np.bincount(client.y).max()
    return "" if most > 1 else ", but no class has two"
