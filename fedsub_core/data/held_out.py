"""What is held out of training: whole clients, a share of the samples, labels of some classes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.splits import BoolArray, IntArray, split_rng, tested_count
from fedsub_core.errors import DataError, listed


def unseen_clients(
    ids: Iterable[str],
    share: float,
    seed: int,
    by: str = "people",
    capacities: Mapping[str, float] | None = None,
    named: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the ids of the clients that are held out, ascending; at least one, never all.

    The order of `ids` cannot change the result.

    Parameters
    ----------
    by : ``people``, a share of all; ``capacity``, that share of the clients of each capacity, of
        one alone none; ``smallest``, all of the smallest capacity.
    capacities : by client; 1 where it is not named.
    named : the clients themselves; (): they are drawn.

    Raises DataError if nobody could be held out, nobody would be left, or a named one is not there.
    """
    ordered = sorted(set(ids))
    if named:
        return _named(ordered, frozenset(named))
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


def _named(ordered: Sequence[str], named: frozenset[str]) -> tuple[str, ...]:
    if absent := sorted(named.difference(ordered)):
        raise DataError(
            f"unseen-people: got {listed(map(repr, absent), 5)}, expected people of the run: "
            f"{listed(ordered, 20)}"
        )
    if len(named) == len(ordered):
        raise DataError(
            f"unseen-people: got all {len(ordered)} people, expected that one at least is left to "
            "train"
        )
    return tuple(sorted(named))


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


def few_of_each(train: IntArray, client: ClientData, most: int, seed: int) -> IntArray:
    """Return the training indices of which `most` of each class are kept, ascending.

    Drawn at random, as :func:`thinned`: fewer of them are among those of more. `seed` is the run's.
    """
    rng = split_rng(seed, client.client, "samples per class")
    labels = np.unique(client.y[train])
    kept = [rng.permutation(train[client.y[train] == label])[:most] for label in labels]
    return np.sort(np.concatenate([np.empty(0, np.int64), *kept]))


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
