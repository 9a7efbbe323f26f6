"""FedSub's secure sums: what people add, what a server asks for and says, and what it cannot.

Each round counts by unit how many people use it for one of their classes. Of units that enough
people use, the next round asks for rows: a person counts once for each of its classes that uses the
unit, so a mean is everybody's, by class. All classes of a person share one set of rows, so each
unit has one slot. Of a slot for each class, two that differ in one person would tell its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedsub_core.addends import Addend, masks
from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, dense

#: In a download, beside rows, which are everybody's means: which round's sum counted, and whether
#: the person was in it; by layer, of which units the round asks for rows; of methods that mix, how
#: much of a hidden unit comes from everybody.
COUNTED, ASKED, MIX = "counted", ".asked", "mix"
#: In a vector, by layer: who uses each unit now; and of units that are asked for, who used it when
#: counted last, and for how many classes. By rows: rows, each times these classes.
USED, PEOPLE = ".used", ".people"


def refused_in_sums(hyper: Any, method: str = "fedsub") -> str:
    """Return the options that secure sums refuse, and what is expected instead; "": none."""
    alone, impute = "which needs single people's uploads", str(hyper.impute).lower()
    checks = (
        ("k-selection", hyper.k_selection, alone, "fixed:1"),
        # Another fusion than FedSub's has no such options.
        ("fusion", getattr(hyper, "fusion", "avg"), alone, "avg"),
        ("fusion-reading", getattr(hyper, "fusion_reading", "own"), alone, "own"),
        ("score", hyper.score, alone, "one"),
        ("impute", impute, alone, "false"),
        ("prototype-noise", hyper.prototype_noise, "where no prototypes are sent", "none"),
    )
    return "; ".join(
        f"{method}.{key} = {got}, {why}, expected {expected}"
        for key, got, why, expected in checks
        if got != expected
    )


def receives_in_sums(hyper: Any, adds: Sequence[Addend]) -> Declaration:
    """Declare what a server of sums sends beside rows; nothing where it cannot sum."""
    counted = {COUNTED: dense((2,), optional=True, exact=True)}
    return {} if refused_in_sums(hyper) else {**counted, **masks(adds)}


def adds_units(model: Architecture, hyper: Any) -> list[Addend]:
    """Return the addends of units."""
    adds = []
    for layer in model.affine[: hyper.depth or None]:
        units, mask = layer.units, layer.name + ASKED
        adds.append(Addend(layer.name + USED, (units,), counts=mask))
        adds.append(Addend(layer.name + PEOPLE, (units, 2), mask))
        adds += [Addend(own.name, (units, own.width), mask) for own in layer.rows]
    return adds
