"""Training and test parts of one client's samples, and clients that are held out.

The three protocols: ``stratified`` draws random windows of every class, as the paper does, and
leaks where windows overlap; ``blocked`` cuts every class in time and drops the windows that
would reach across; ``unseen`` holds whole clients out (:func:`unseen_clients`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_core.seeds import derive_seed

SplitKind = Literal["stratified", "blocked"]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

#: Windows that only touch must not count as overlapping because of a rounding error.
_TOUCHING = 1e-6
#: In lengths of a window. No choice of a person's windows leaves half of them so far apart.
_SURELY_APART = 100.0


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

    Where the file has no ``t``, or none in seconds, or the card no window length, ``blocked``
    counts windows instead of seconds: ``ceil(overlap / (1 - overlap))`` are dropped at a boundary,
    across classes where the order is known to be that in time, within each class elsewhere.
    ``blocked`` is then only as good as the order of the file.

    Raises
    ------
    DataError
        Where the client would have no training or no test sample.
    """
    if kind == "stratified":
        train, test = _stratified(client, test_share, seed)
    elif kind == "blocked":
        train, test = _blocked(client, card, test_share)
    else:
        raise ValueError(f"split {kind!r} is not one of 'stratified', 'blocked'")
    if not train.any() or not test.any():
        raise DataError(
            f"client {client.client!r}: a {kind} split of its {len(client.y)} samples leaves "
            f"{int(train.sum())} for training and {int(test.sum())} for testing; expected one of "
            "each at least. Leave this client out, give it more samples or change test-share."
        )
    return np.flatnonzero(train), np.flatnonzero(test)


def split_kind(wanted: str, client: ClientData, card: Card) -> SplitKind:
    """Return how a client's samples are split where the run's ``split`` is `wanted`.

    ``auto``, and ``unseen`` for whoever has joined, cut in time where the order in time is known
    or windows overlap, by the card or by the client's own ``t``.
    """
    if wanted in ("stratified", "blocked"):
        return "stratified" if wanted == "stratified" else "blocked"
    in_time = card.time_ordered or card.overlap > 0 or bool(overlaps(client, card).any())
    return "blocked" if in_time else "stratified"


def overlaps(client: ClientData, card: Card) -> FloatArray:
    """Return the overlaps of windows with their successors in time, as ``t`` shows, float64 [k].

    Shares of a window, above 0; none where ``t`` or the card's window length is missing.
    """
    if client.t is None or card.window_s is None:
        return np.zeros(0)
    shared = 1 - np.diff(np.sort(client.t)) / card.window_s
    return shared[shared > _TOUCHING]


def together(client: ClientData, card: Card) -> int:
    """Return how many windows start within a window's length, by the card or by ``t``.

    They hold much the same: of windows of 60 s every 5 s 12, of windows that do not overlap 1, of
    two devices that record at once twice as many.
    """
    said, seen = round(1 / max(1 - card.overlap, 1 / len(client.y))), 1
    if client.t is not None and card.window_s is not None:
        t = np.sort(client.t)
        ends = np.searchsorted(t, t + card.window_s * (1 - _TOUCHING))
        seen = round(float(np.median(ends - np.searchsorted(t, t))))
    return max(said, seen)


def unseen_clients(ids: Iterable[str], share: float, seed: int) -> tuple[str, ...]:
    """Return the ids of the clients that are held out, ascending; at least one, never all.

    The order of `ids` cannot change the result.
    """
    ordered = np.array(sorted(set(ids)))
    if len(ordered) < 2:
        raise DataError(
            f"holding clients out: got {len(ordered)} client(s), expected two at least. Use "
            "split = 'blocked' or a federation with more clients."
        )
    drawn = split_rng(seed, "", "unseen clients").permutation(len(ordered))
    return tuple(sorted(map(str, ordered[drawn[: tested_count(len(ordered), share)]])))


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


def _stratified(client: ClientData, share: float, seed: int) -> tuple[BoolArray, BoolArray]:
    rng = split_rng(seed, client.client, "split")
    test = np.zeros(len(client.y), np.bool_)
    for label in np.unique(client.y):
        rows = rng.permutation(np.flatnonzero(client.y == label))
        test[rows[: tested_count(len(rows), share)]] = True
    return ~test, test


def _blocked(client: ClientData, card: Card, share: float) -> tuple[BoolArray, BoolArray]:
    when, width = window_places(client, card)
    order = np.argsort(when, kind="stable")
    test = np.zeros(len(client.y), np.bool_)
    for label in np.unique(client.y):
        rows = order[client.y[order] == label]
        head, tail = np.split(rows, [len(rows) - tested_count(len(rows), share)])
        # Where the gap would eat all of a short class, the class is trained and not tested.
        if clear_of(when[head], when[tail], width).any():
            test[tail] = True
    return ~test & clear_of(when, when[test], width), test


def in_seconds(client: ClientData, card: Card) -> bool:
    """Return whether ``t`` and the card's window length are there, and can be of one unit.

    Not where windows overlap by the card and by ``t`` lie a hundred lengths apart: milliseconds.
    """
    if client.t is None or card.window_s is None:
        return False
    far = _SURELY_APART * card.window_s
    return (
        card.overlap == 0 or len(client.t) < 2 or bool(np.median(np.diff(np.sort(client.t))) < far)
    )


def window_places(client: ClientData, card: Card) -> tuple[FloatArray, float]:
    """Return each window's place in time, and the distance below which two windows overlap."""
    n = len(client.y)
    if client.t is not None and card.window_s is not None and in_seconds(client, card):
        return client.t, card.window_s * (1 - _TOUCHING)
    # 0.9 / (1 - 0.9) is 9.000000000000002 in floating point, and must not become 10.
    gap = math.ceil(card.overlap / (1 - card.overlap) - 1e-9)
    place = np.arange(n, dtype=np.float64)
    if client.t is not None:
        place[np.argsort(client.t, kind="stable")] = np.arange(n)
    elif not card.time_ordered:
        # Neighbours in the file need not be neighbours in time: keep the classes far apart.
        for label in np.unique(client.y):
            rows = np.flatnonzero(client.y == label)
            place[rows] = label * float(n + gap + 1) + np.arange(len(rows))
    return place, gap + 0.5


def clear_of(times: FloatArray, others: FloatArray, width: float) -> BoolArray:
    """Return bool [times]: which lie `width` or more from every one of `others`."""
    if len(others) == 0:
        return np.ones(len(times), np.bool_)
    fence = np.concatenate(([-np.inf], np.sort(others), [np.inf]))
    after = np.searchsorted(fence, times)
    return np.minimum(fence[after] - times, times - fence[after - 1]) >= width
