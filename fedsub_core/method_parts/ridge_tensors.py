"""Names and shapes of the tensors of ``fedsub-ridge``: statistics, equations, sums over people."""

from __future__ import annotations

from math import prod
from typing import Any

from fedsub_core.closed_form.grids import ALONE, ON_EACH, TEMPERATURES, packed
from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, dense

#: Up: a person's statistics, how often they were halved, and what its candidates said.
GRAM, CROSS, SHIFTS, EQUATIONS = "gram", "cross", "shifts", "equations"
#: Down: how many samples of the person are in the sums, as how many they count, and whether the
#: server has its equations for these sums; everybody's equations, a sample's worth.
HELD, POOLED = "held", "pooled"
#: Down in runs of secure sums: what is asked for, and of which classes; of which classes the sums
#: hold the person's samples.
ASKED, OF_CLASSES, INSIDE = "asked", "asked.classes", "inside"
EVERYBODY = "everybody"
#: Down with sums that are without noise: how many people have each class, and how many there are.
HOLDERS = "holders"


def sums_of(name: str, model: Architecture) -> Declaration:
    """Declare sums over several people, which come together or not at all."""
    features = prod(model.input_shape)
    return {
        f"{name}.{GRAM}": dense((packed(features),), optional=True, exact=True),
        f"{name}.{CROSS}": dense((model.classes, features + 1), optional=True, exact=True),
        f"{name}.exponent": dense((1,), optional=True, exact=True),
    }


def groups(hyper: Any, classes: int) -> tuple[str, ...]:
    """Return the names of the sums of a person's groups: none, one, or one a class."""
    count = {"none": 0, "class": classes}.get(hyper.groups, 1)
    return tuple(f"group{i}" for i in range(count))


def candidates(hyper: Any) -> int:
    """Return the number of heads that a person mixes."""
    return ALONE + ON_EACH * (1 if hyper.groups == "none" else 2)


def equations(hyper: Any) -> int:
    """Return the number of a person's equations' coefficients and losses."""
    count = candidates(hyper)
    return packed(count - 1) + count + len(TEMPERATURES)


def receives(model: Architecture, hyper: Any) -> Declaration:
    """Declare sums and pooled equations, which are sent when they are new."""
    classes = model.classes
    found = {
        HELD: dense((3,), optional=True, exact=True),
        ASKED: dense((1,), optional=True, exact=True),
        OF_CLASSES: dense((classes,), optional=True, exact=True),
        INSIDE: dense((classes,), optional=True, exact=True),
    }
    for name in (EVERYBODY, *groups(hyper, classes)):
        found |= sums_of(name, model)
    found[HOLDERS] = dense((classes + 1,), optional=True, exact=True)
    return found | {POOLED: dense((equations(hyper),), optional=True, exact=True)}
