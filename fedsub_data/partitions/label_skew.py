"""Partitions in which clients differ in their labels: Dirichlet and pathological.

Both pool all people's samples (:mod:`fedsub_data.partitions.pool`) and place every one of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_core.options import option
from fedsub_core.seeds import derive_seed
from fedsub_data.partitions.pool import IntArray, deal, draw, pooled
from fedsub_data.preparing.preparation import Counts

#: How often a draw that leaves a client too little is repeated before it is mended.
TRIES = 10


@dataclass(frozen=True)
class DirichletOptions:
    """Options of :func:`dirichlet`."""

    clients: int = option(30, "number of clients", minimum=1)
    alpha: float = option(
        0.5,
        "concentration of the Dirichlet distribution; small: few classes per client",
        minimum=1e-3,
        maximum=1e6,
    )
    least: int = option(10, "smallest number of samples of a client", minimum=2)


@dataclass(frozen=True)
class PathologicalOptions:
    """Options of :func:`pathological`."""

    clients: int = option(30, "number of clients", minimum=1)
    classes_per_client: int = option(2, "exact number of classes of each client", minimum=1)


def dirichlet(
    federation: Federation, options: DirichletOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients that share every class in proportions drawn from a Dirichlet distribution.

    For each class c, ``p_c ~ Dir(alpha * 1 [clients])``, and client j gets ``p_c[j]`` of its
    samples, drawn at random (Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural
    Networks, ICML 2019; the label skew of Li et al., Federated Learning on Non-IID Data Silos,
    ICDE 2022). Hsu et al. (arXiv:1909.06335, 2019) draw ``Dir(alpha * prior)`` over the classes
    for each client instead, which keeps clients equally large; here sizes differ, too.

    After ten draws that leave a client fewer than `least`, the largest clients give it samples of
    their most frequent class, one by one; `counts` says how many.

    Raises DataError where ``clients * least`` samples do not exist.
    """
    pool = pooled(federation)
    if options.clients * options.least > len(pool.y):
        raise DataError(
            f"dirichlet: {options.clients} clients of at least {options.least} samples need "
            f"{options.clients * options.least}; got {len(pool.y)} samples. Choose fewer clients "
            "or a smaller least."
        )
    rng = np.random.default_rng(derive_seed(seed, "", 0, "partition: dirichlet"))
    sizes, concentration = pool.sizes(), np.full(options.clients, options.alpha)
    for _ in range(TRIES):
        ends = np.cumsum(rng.dirichlet(concentration, pool.classes), axis=1)
        # The last sum may miss 1 by a rounding error, which must not lose a sample.
        ends[:, -1] = 1.0
        cuts = np.rint(ends * sizes[:, None])
        table = np.diff(cuts, axis=1, prepend=0.0).astype(np.int64).T
        if table.sum(axis=1).min() >= options.least:
            break
    counts.add("samples moved to clients that had too few", _level(table, options.least))
    return deal(pool, draw(pool, table, rng), counts)


def pathological(
    federation: Federation, options: PathologicalOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients that hold exactly `classes_per_client` classes each, one shard of each.

    As McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data
    (AISTATS 2017, section 3): samples sorted by label are cut into shards and each client gets
    some. There a client's shards may be of one class or span two; here a shard has one class, a
    client never gets two of the same, and every class is held by someone. A class is cut into
    shards in proportion to its size, as nearly as these rules allow, so nothing is left over. A
    shard is a run of one class in the pool's order: it comes from few people, and neighbours in
    time mostly stay together.

    Raises DataError where there are fewer classes than a client should hold, more than clients
    could hold, or too few samples for shards of two.
    """
    pool = pooled(federation)
    sizes, k, clients = pool.sizes(), options.classes_per_client, options.clients
    held = np.flatnonzero(sizes)
    # A class with one sample makes one shard; its client trains on it and tests another class.
    most = np.minimum(np.maximum(sizes[held] // 2, 1), clients)
    if k > len(held):
        raise _impossible(f"{k} classes for each client", f"{len(held)} classes with samples")
    if clients * k < len(held):
        asked = f"{clients} clients with {k} classes each hold {clients * k} at most"
        raise _impossible(asked, f"{len(held)} classes with samples, none to be left out")
    if clients * k > most.sum():
        asked = f"{clients} clients with {k} classes each need {clients * k} shards"
        raise _impossible(asked, f"samples for {most.sum()} shards of 2, one per class and client")
    shards = _shard_counts(sizes[held], most, clients * k)
    rng = np.random.default_rng(derive_seed(seed, "", 0, "partition: pathological"))
    for _ in range(TRIES):
        holds = _holders(shards, clients, k, rng)
        if holds[:, sizes[held] > 1].any(axis=1).all():
            break
    hands: list[list[IntArray]] = [[] for _ in range(clients)]
    for column, label in enumerate(held):
        cut = np.array_split(np.flatnonzero(pool.y == label), shards[column])
        for client, shard in zip(
            rng.permutation(np.flatnonzero(holds[:, column])), cut, strict=True
        ):
            hands[client].append(shard)
    counts.add("shards", int(shards.sum()))
    return deal(pool, [np.concatenate(hand) for hand in hands], counts)


def label_divergence(federation: Federation) -> float:
    """Return the mean KL divergence of clients' labels from everybody's, nats.

    0 where all have the same shares of classes; ``ln(classes)`` where each has one of equally
    frequent classes.
    """
    counts = [
        np.bincount(d.y, minlength=len(federation.card.classes))
        for d in federation.clients.values()
    ]
    table = np.array(counts, np.float64)
    everybody = table.sum(axis=0) / table.sum()
    own = table / table.sum(axis=1, keepdims=True)
    ratio = np.divide(own, everybody, out=np.ones_like(own), where=own > 0)
    return float((own * np.log(ratio)).sum(axis=1).mean())


def _level(table: IntArray, least: int) -> int:
    """Move single samples in ``table [clients, classes]`` until all have `least`; count them."""
    totals, moved = table.sum(axis=1), 0
    for client in np.flatnonzero(totals < least):
        while totals[client] < least:
            donor = totals.argmax()
            label = table[donor].argmax()
            table[donor, label] -= 1
            table[client, label] += 1
            totals[donor] -= 1
            totals[client] += 1
            moved += 1
    return moved


def _shard_counts(sizes: IntArray, most: IntArray, total: int) -> IntArray:
    """Return the number of shards of each class: `total` in all, from 1 to `most`.

    In proportion to its samples by Sainte-Laguë's quotients, which round to the nearest.
    """
    shards = np.ones(len(sizes), np.int64)
    for _ in range(total - len(sizes)):
        shards[np.where(shards < most, sizes / (2 * shards + 1), -1).argmax()] += 1
    return shards


def _holders(shards: IntArray, clients: int, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return the clients' classes, bool [clients, classes], nearly uniform among all ways."""
    left, holds = np.full(clients, k), np.zeros((clients, len(shards)), np.bool_)
    for column, count in enumerate(shards):
        # Whoever still lacks most gets it: by Gale and Ryser's theorem this always comes out.
        takers = np.lexsort((rng.random(clients), -left))[:count]
        holds[takers, column] = True
        left[takers] -= 1
    # That way some pairs of classes never meet. Pairs of clients that trade what only one of them
    # holds, again and again, end at a uniform draw (Strona et al., Nature Communications 2014).
    for _ in range(10 * clients if clients > 1 else 0):
        client, other = rng.choice(clients, 2, replace=False)
        tradable = rng.permutation(np.flatnonzero(holds[client] != holds[other]))
        kept = int(holds[client, tradable].sum())
        holds[client, tradable] = np.arange(len(tradable)) < kept
        holds[other, tradable] = np.arange(len(tradable)) >= kept
    return holds


def _impossible(asked: str, got: str) -> DataError:
    return DataError(f"pathological: {asked}; got {got}. Change clients or classes-per-client.")
