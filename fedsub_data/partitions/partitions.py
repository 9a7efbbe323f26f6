"""Another federation out of one, for controlled experiments: the table of partitions.

What people differ in is not under control: labels, sizes, sensors and habits all at once. A
partition deals the same samples so that clients differ in one known way. All are deterministic in
the seed, independent of the order of clients, end after a fixed number of steps, and give a sample
to one client at most, but for ``hard-clusters`` with ``disjoint=false``. All keep the time by which
a blocked split sees overlap (:mod:`fedsub_data.partitions.pool`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from statistics import median
from typing import Any

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import different
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import NODE
from fedsub_core.data.splits import split
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import describe, suggestion
from fedsub_data.partitions.feature_shift import FeatureShiftOptions, feature_shift
from fedsub_data.partitions.label_skew import (
    DirichletOptions,
    PathologicalOptions,
    dirichlet,
    pathological,
)
from fedsub_data.partitions.partition import Partition
from fedsub_data.partitions.pool import COPIES
from fedsub_data.preparing.preparation import Counts, Prepared


@dataclass(frozen=True)
class NaturalOptions:
    """One person is one client: nothing to choose."""


def _natural(
    federation: Federation, options: NaturalOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    return dict(federation.clients)


#: The entry point group under which packages add rows.
GROUP = "fedsub.partitions"
#: The kinds of this folder, and all.
HOUSE: dict[str, Partition] = {
    p.name: p
    for p in (
        Partition("natural", "one person, one client", NaturalOptions, _natural),
        Partition(
            "dirichlet",
            "label skew: Dirichlet shares of every class (Yurochkin et al. 2019)",
            DirichletOptions,
            dirichlet,
        ),
        Partition(
            "pathological",
            "label skew: exactly k classes for each client (after McMahan et al. 2017)",
            PathologicalOptions,
            pathological,
        ),
        Partition(
            "feature-shift",
            "every client has a sensor of its own: gain, offset, rotation",
            FeatureShiftOptions,
            feature_shift,
        ),
    )
}
PARTITIONS: dict[str, Partition] = HOUSE | {
    point.name: point.load() for point in entry_points(group=GROUP)
}


def counted_partition(federation: Federation, kind: str, options: Any, seed: int) -> Prepared:
    """Return `federation` dealt to other clients, or measured with other sensors, and counts.

    The card is kept, but for the name: ``<name>-<kind>``. Clients of pooled samples are called
    ``c000``, ``c001``, ..., those of a domain ``<domain>-000``, ... The counts of what happened are
    for a person to read.

    Parameters
    ----------
    kind : a key of :data:`PARTITIONS`.
    options : dataclass
        Of the type ``PARTITIONS[kind].options``.
    seed : two seeds give two partitions of the same kind (``natural`` has but one).

    Raises ConfigError where the kind or an option is not one. Raises DataError where the federation
    cannot be dealt that way, or a client could not be split into training and test: none of its
    classes has two samples.
    """
    row = _row(kind)
    if type(options) is not row.options:
        raise ConfigError(
            f"partition {kind}: got options {type(options).__name__}, expected "
            f"{row.options.__name__}"
        )
    for option in describe(row.options):
        option.check(getattr(options, option.key.replace("-", "_")), f"partition {kind}")
    counts = Counts()
    counts.add("clients before", len(federation.clients))
    clients = row.make(federation, options, seed, counts)
    check_splittable(clients.values(), f"partition {kind}")
    card = replace(federation.card, name=f"{federation.card.name}-{kind}")
    made = Federation(card, clients)
    placed = sum(len(data.y) for data in clients.values())
    counts.add("clients", len(clients))
    counts.add("samples placed", placed)
    people = sum(len(data.y) for data in federation.clients.values())
    counts.add("samples left out", people - placed + counts.get(COPIES, 0))
    if federation.card.sample == NODE:
        counts.add("edges before", _edges(federation.clients.values()))
        counts.add("edges", _edges(clients.values()))
    counts.add("clients too short for a blocked split", _too_short(made))
    sizes = [len(data.y) for data in clients.values()]
    classes = [len(np.unique(data.y)) for data in clients.values()]
    for what, numbers in (("samples", sizes), ("classes", classes)):
        counts.add(f"{what} of a client: fewest", min(numbers))
        counts.add(f"{what} of a client: median", round(median(numbers)))
        counts.add(f"{what} of a client: most", max(numbers))
    return Prepared(made, counts)


def partition_options(kind: str) -> type[Any]:
    """Return the options' dataclass of a kind, or raise a ConfigError that suggests the nearest."""
    return _row(kind).options


def check_splittable(clients: Iterable[ClientData], name: str) -> None:
    """Refuse a client that could not be trained and tested, or that starts with no sample.

    Parameters
    ----------
    name : the partition's, for the message.
    """
    for data in clients:
        counts = np.bincount(data.y[different(data.first_copies, len(data.y))], minlength=1)
        if counts.max() < 2:
            raise DataError(
                f"{name}: client {data.client!r} has {len(data.y)} samples and at most "
                f"{counts.max()} different of a class; expected a class with 2 at least, one to "
                "train on and one to test. Choose fewer clients, more samples or classes for each, "
                "or another seed."
            )
        if data.since is not None and (data.since > 1).all():
            raise DataError(
                f"{name}: client {data.client!r} would have its first sample in round "
                f"{data.since.min()}; expected one from round 1 on. Make the partition first and "
                "let its clients gain data then, or choose fewer clients."
            )


def _row(name: str) -> Partition:
    if name in PARTITIONS:
        return PARTITIONS[name]
    hint = suggestion(name, PARTITIONS)
    raise ConfigError(f"unknown partition {name!r}.{hint} Known: {', '.join(PARTITIONS)}.")


def _edges(clients: Iterable[ClientData]) -> int:
    return sum(data.edges.shape[1] for data in clients if data.edges is not None)


def _too_short(federation: Federation) -> int:
    """Count the clients of which overlap leaves a blocked split, with 0.3 tested, no part."""
    short = 0
    for data in federation.clients.values():
        try:
            split(data, federation.card, "blocked", 0.3, 0)
        except DataError:
            short += 1
    return short
