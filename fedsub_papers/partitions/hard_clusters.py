"""Partition into groups of clients that share no class, with skewed labels and sizes inside.

The hard clustering of the report "CA-AFP" (section 6.2): 30 clients in 3 groups of 10 that hold
walking and jogging, stairs up and down, sitting and standing; Dirichlet(0.5) between a client's
two classes; ``50 + LogNormal(4.5, 0.8)`` samples. The report's clients share windows, so that one
trains on what another is tested on; here they do so on request. Client ids run through the groups
one after another, so a clustering can be judged.
"""

from dataclasses import dataclass

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import option
from fedsub_core.seeds import derive_seed
from fedsub_data.partitions.partition import Partition
from fedsub_data.partitions.pool import (
    COPIES,
    FloatArray,
    IntArray,
    Pool,
    deal,
    draw,
    pooled,
)
from fedsub_data.preparing.preparation import Counts


@dataclass(frozen=True)
class HardClustersOptions:
    """Options of :func:`hard_clusters`; the defaults are the report's, but for `disjoint`."""

    clients: int = option(
        30, "number of clients, divided among the groups as evenly as possible", minimum=2
    )
    groups: str = option(
        "",
        "labels of each group, such as 0,1/2,3/4,5; empty = consecutive pairs of classes",
        pattern=r"([0-9]{1,6}(,[0-9]{1,6})*(/[0-9]{1,6}(,[0-9]{1,6})*)*)?",
        like="numbers of classes with commas, and / between groups, such as 0,1/2,3",
    )
    alpha: float = option(
        0.5, "concentration of a client's distribution over classes", minimum=1e-3, maximum=1e6
    )
    base: int = option(50, "number of samples of a client, without the log-normal part", minimum=0)
    mu: float = option(4.5, "mean of the logarithm of the log-normal part", minimum=-20, maximum=20)
    sigma: float = option(0.8, "standard deviation of that logarithm", minimum=0, maximum=5)
    least: int = option(
        10, "smallest number of samples of a client if sizes are scaled down", minimum=2
    )
    disjoint: bool = option(
        True, "no two clients have the same sample; false: each draws from all samples of its group"
    )


def hard_clusters(
    federation: Federation, options: HardClustersOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients in consecutive groups, of which each holds its own classes only.

    Client i of a group wants ``base + LogNormal(mu, sigma)`` samples in shares
    ``Dirichlet(alpha)`` of the group's classes, out of all people's
    (:mod:`fedsub_data.partitions.pool`). What nobody draws is left out.

    ``disjoint``: none is drawn twice. Where a class has fewer than its group wants, the sizes of
    that whole group are scaled down by one factor, but none below `least`; `counts` says to how
    many percent. Otherwise each client draws from all samples of its group, none twice for itself:
    as many as it wants or there are, one of each class at least. Where its share of a class is
    more than there are, other classes of the group make up for it. `counts` says how many samples
    more than one client holds.

    With an odd number of classes, the last default group has three.

    Raises ConfigError where groups share a class, name one without samples, or are fewer than two
    or more than the clients. Raises DataError where disjoint clients with `least` samples each
    would still want more than a class, or all classes, have; where there are more clients than
    samples.
    """
    pool = pooled(federation)
    least = options.least if options.disjoint else 1
    if options.clients * least > len(pool.y):
        raise DataError(
            f"hard-clusters: {options.clients} clients of at least {least} samples need "
            f"{options.clients * least}; got {len(pool.y)} samples. Choose fewer clients"
            f"{' or a smaller least' if options.disjoint else ''}."
        )
    groups = _groups(options.groups, pool.sizes(), options.clients)
    wanted = np.zeros((options.clients, pool.classes), np.int64)
    rng = np.random.default_rng(derive_seed(seed, "", 0, "partition: hard clusters"))
    members = np.array_split(np.arange(options.clients), len(groups))
    for number, (labels, clients) in enumerate(zip(groups, members, strict=True), start=1):
        sizes = options.base + rng.lognormal(options.mu, options.sigma, len(clients))
        shares = rng.dirichlet(np.full(len(labels), options.alpha), len(clients))
        where = f"group {number} ({', '.join(federation.card.classes[i] for i in labels)})"
        available, cells = pool.sizes()[labels], np.ix_(clients, np.array(labels))
        if options.disjoint:
            wanted[cells], factor = _fitting(sizes, shares, available, options.least, where)
            counts.add(f"percent of the drawn sizes: {where}", int(100 * factor))
        else:
            wanted[cells] = _of_all(sizes, shares, available)
    hands = (draw if options.disjoint else _draw_shared)(pool, wanted, rng)
    if not options.disjoint:
        holders = np.bincount(np.concatenate(hands))
        counts.add("samples that more than one client holds", int((holders > 1).sum()))
        counts.add(COPIES, int((holders - 1).clip(min=0).sum()))
    return deal(pool, hands, counts)


def _draw_shared(pool: Pool, wanted: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Return rows of `pool` for each client: ``wanted [clients, classes]`` at random.

    Each client draws from all rows, none twice; two clients may draw the same.
    """
    of_class = [np.flatnonzero(pool.y == label) for label in range(pool.classes)]
    return [
        np.concatenate(
            [rng.choice(rows, n, replace=False) for rows, n in zip(of_class, row, strict=True)]
        )
        for row in wanted
    ]


def _groups(text: str, sizes: IntArray, clients: int) -> list[list[int]]:
    held = np.flatnonzero(sizes).tolist()
    if text:
        groups = [[int(label) for label in group.split(",")] for group in text.split("/")]
    else:
        starts = list(range(0, len(held) - 1, 2))
        groups = [held[i : i + 2] for i in starts]
        if groups and len(held) % 2:
            groups[-1].append(held[-1])
    labels = [label for group in groups for label in group]
    got = "/".join(",".join(map(str, group)) for group in groups)
    if len(set(labels)) < len(labels):
        raise _refused(got, "every class in one group and once")
    if not set(labels) <= set(held):
        raise _refused(got, f"classes that have samples: {', '.join(map(str, held))}")
    if not 2 <= len(groups) <= clients:
        raise _refused(got, f"2 groups at least and no more than the {clients} clients")
    return groups


def _refused(got: str, expected: str) -> ConfigError:
    return ConfigError(
        f"hard-clusters: groups: got {got!r}, expected {expected}. Set groups, such as "
        "groups=0,1/2,3, or clients."
    )


def _fitting(
    sizes: FloatArray, shares: FloatArray, available: IntArray, least: int, where: str
) -> tuple[IntArray, float]:
    """Return whole numbers ``[clients, classes]`` that fit, and by which factor sizes shrank."""
    # No greater factor can fit: scaled sizes and shares are rounded, each by less than 1.
    most = (available + 2 * len(sizes)) / np.maximum(sizes @ shares, 1.0)
    for factor in np.linspace(min(1.0, most.min()), 0.0, 1001):
        table = _whole(sizes, shares, factor, least)
        over = table.sum(axis=0) - available
        if over.max() <= 0:
            return table, float(factor)
    column = over.argmax()
    raise DataError(
        f"hard-clusters: {where}: {len(sizes)} clients of only {least} samples would still want "
        f"{over[column] + available[column]} of a class that has {available[column]}. Choose fewer "
        "clients, a smaller least, a larger alpha, other groups or another seed."
    )


def _whole(sizes: FloatArray, shares: FloatArray, factor: float, least: int) -> IntArray:
    """Return shares of the scaled sizes as whole numbers that add up (largest remainder)."""
    totals = np.maximum(np.floor(sizes * factor), least).astype(np.int64)
    exact = totals[:, None] * shares
    table = np.floor(exact).astype(np.int64)
    rank = np.argsort(np.argsort(table - exact, axis=1, kind="stable"), axis=1, kind="stable")
    table += rank < (totals - table.sum(axis=1))[:, None]
    return table


def _of_all(sizes: FloatArray, shares: FloatArray, available: IntArray) -> IntArray:
    """Return whole numbers ``[clients, classes]`` from 1 to what is `available`."""
    totals = np.minimum(sizes, available.sum())
    drawn = _whole(totals, shares, 1.0, len(available))
    table = drawn.clip(1, available)
    for row, missing in zip(table, (drawn - table).sum(axis=1), strict=True):
        room = available - row if missing > 0 else row - 1
        for i in np.argsort(-room, kind="stable"):
            step = min(abs(missing), room[i])
            row[i] += np.sign(missing) * step
            missing -= np.sign(missing) * step
    return table


HARD_CLUSTERS = Partition(
    "hard-clusters",
    "groups of clients that share no class, sizes log-normal (CA-AFP)",
    HardClustersOptions,
    hard_clusters,
)
