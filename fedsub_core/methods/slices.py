"""What the cards have in common of methods that say with each message which units it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.sub_models import SEES_SUB_MODELS, UNITS_STAY
from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, sliced

#: What the cards of all of these decide alike.
DECISIONS = (
    "Units that a device holds and did not receive are 0, so its model computes the same as "
    "the part that it received last.",
    "Inputs and classes are never left out.",
    "The model is tested as received: the part that the device gets for the next round.",
    UNITS_STAY,
)


def sliced_model(model: Architecture, hyper: Any) -> Declaration:
    """Declare a chain of which some units of each layer travel, with the inputs that follow."""
    before, found = "", {}
    for layer in model.affine:
        for unit in ("weight", "bias"):
            name = f"{layer.name}.{unit}"
            follows = before if unit == "weight" else ""
            found[name] = sliced(model.parameter_shapes[name], follows)
        before = f"{layer.name}.weight"
    return found


def slice_card(
    *,
    learner: str = "fedsub_client.parts.slices:SliceLearner",
    holds: str = "fedsub_core.models.pools:whole_chain",
    up: str = "the units that were sent, trained",
    down: str = "some units of each hidden layer",
    sends: Callable[[Architecture, Any], Declaration] = sliced_model,
    receives: Callable[[Architecture, Any], Declaration] = sliced_model,
    privacy: str = SEES_SUB_MODELS,
    decisions: tuple[str, ...] = (),
    **own: Any,
) -> MethodCard:
    """Return the card of such a method; by default a device has room for the whole chain."""
    return MethodCard(
        learner=learner,
        up=up,
        down=down,
        sends=sends,
        receives=receives,
        narrow="model",
        holds=holds,
        privacy=privacy,
        decisions=(*decisions, *DECISIONS),
        **own,
    )
