"""What cards declare of FedSub's secure sums: what a server asks for and says, and what it cannot.

What a person adds up is :mod:`fedsub_core.secure.cluster_slots`'s.
"""

from __future__ import annotations

from typing import Any

from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, bits, dense, rows

#: In a download: each class's public centroids, which of them are open, and of which the round asks
#: for prototypes; by layer, of which units it asks for rows, and which ones all people of a cluster
#: selected; by rows, the means of a cluster's people. And which round's sum counted, and whether
#: the person was in it.
CENTROIDS, OPEN, ASKED, COUNTED = "centroids", "open", "asked", "counted"
ASKED_UNITS, SELECTED_BY_ALL, MEANS = ".asked", ".by-all", ".means"
#: Where everybody is mixed in, by rows the last mean of all, and of which units it is the last
#: round's; and how much of a row comes from clusters, and how much from everybody.
EVERYBODY, FRESH, MIX = ".everybody", ".fresh", "mix"
#: Readings of what a unit is that somebody did not select, of which nobody's zeros are counted.
READ = ("own", "held")


def clusters_of(hyper: Any) -> int:
    """Return how many clusters a class has at most in sums; 0: the rule wants single prototypes."""
    rule, _, number = hyper.k_selection.partition(":")
    return int(number) if rule == "fixed" else 0


def not_in_sums(hyper: Any, method: str = "fedsub") -> str:
    """Return what does not go with secure sums, and what is expected instead; "": all goes."""
    fusions = ("overlapping", "overlapping-any", "avg")
    # Another fusion than FedSub's has no such options.
    fusion = getattr(hyper, "fusion", fusions[0])
    reading = getattr(hyper, "fusion_reading", READ[0])
    fresh = hyper.prototype == "embedding" or hyper.prototype_noise != "none"
    alone = "which needs single people's uploads"
    same = "the same in each round, so that two sums tell one person's"
    readings, impute = " or ".join(READ), str(hyper.impute).lower()
    checks = (
        ("k-selection", hyper.k_selection, clusters_of(hyper) > 0, alone, "fixed:K, as fixed:2"),
        ("fusion", fusion, fusion in fusions, alone, " or ".join(fusions)),
        ("fusion-reading", reading, reading in READ, alone, readings),
        ("score", hyper.score, hyper.score == "one", alone, "one"),
        ("prototype", hyper.prototype, fresh, same, "embedding, or prototype-noise"),
        ("impute", impute, not hyper.impute, alone, "false"),
    )
    return "; ".join(
        f"{method}.{key} = {got}, {why}, expected {expected}"
        for key, got, fits, why, expected in checks
        if not fits
    )


def receives_in_sums(model: Architecture, hyper: Any, size: int) -> Declaration:
    """Declare what a server of sums sends; nothing where it cannot sum.

    Parameters
    ----------
    size : numbers of a prototype.
    """
    clusters = clusters_of(hyper)
    if not clusters:
        return {}
    each = model.classes * clusters
    declared = {
        CENTROIDS: dense((each, size), optional=True, exact=True),
        OPEN: bits((model.classes, clusters), optional=True),
        ASKED: bits((model.classes, clusters), optional=True),
        COUNTED: dense((2,), optional=True, exact=True),
    }
    for layer in model.affine[: hyper.depth or None]:
        declared[layer.name + ASKED_UNITS] = bits((each, layer.units), optional=True)
        declared[layer.name + SELECTED_BY_ALL] = bits((each, layer.units), optional=True)
        for own in layer.rows:
            declared[own.name + MEANS] = rows((each * layer.units, own.width), optional=True)
    return declared


def receives_gated_in_sums(model: Architecture, hyper: Any, size: int) -> Declaration:
    """Declare the same, everybody's means, and how much of which means is mixed in."""
    declared = dict(receives_in_sums(model, hyper, size))
    if declared:
        declared[MIX] = dense((2,), optional=True, exact=True)
        for layer in model.affine[: hyper.depth or None]:
            for own in layer.rows:
                declared[own.name + EVERYBODY] = rows((layer.units, own.width), optional=True)
                declared[own.name + FRESH] = bits((layer.units,), optional=True)
    return declared
