"""What the cards have in common of methods that say with each message which units it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from fedsub_core.method_parts.sub_models import SEES_SUB_MODELS, UNITS_STAY
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.card_parts import WeakDevices
from fedsub_core.models.architecture import Architecture, Layers
from fedsub_core.wire.bundles import Declaration, Declared, bits, sliced

if TYPE_CHECKING:
    from fedsub_core.models.model import Model

#: What the cards of all of these decide alike.
DECISIONS = (
    "Units that a device holds and did not receive are 0, so its model computes the same as the "
    "part that it received last.",
    "Inputs and classes are never left out.",
    "The model is tested as received: the part that the device gets for the next round.",
    UNITS_STAY,
    "In a module, a hidden layer is a group of units (docs/models.md). Units that a norm such as "
    "LayerNorm averages over are refused: those that a device did not receive are 0, and the norm "
    "would count them. Units that a frozen layer reads always stay.",
)


def sliced_model(model: Architecture, hyper: Any) -> Declaration:
    """Declare a model of which some units travel, with the inputs that follow.

    Which inputs a chain's layers follow is plain; of a module's tensors it travels beside them.
    """
    found: dict[str, Declared] = {}
    if isinstance(model, Layers):
        before = ""
        for layer in model.affine:
            for unit in ("weight", "bias"):
                name = f"{layer.name}.{unit}"
                follows = before if unit == "weight" else ""
                found[name] = sliced(model.parameter_shapes[name], follows)
            before = f"{layer.name}.weight"
        return found
    members = [member for group in cast("Model", model).unit_groups for member in group.members]
    with_inputs = {member.tensor for member in members if member.axis == 1}
    for name, shape in model.parameter_shapes.items():
        if name in with_inputs:
            found[inputs_of(name)] = bits(shape[1:2])
        found[name] = sliced(shape, inputs_of(name) if name in with_inputs else "")
    return found


def hidden_layers(model: Architecture) -> int:
    """Return how many layers, of a module groups of units, may be narrow."""
    if isinstance(model, Layers):
        return len(model.affine) - 1
    from fedsub_papers.models.slicing import slice_groups

    return len(slice_groups(cast("Model", model)))


def inputs_of(tensor: str) -> str:
    """Return the name by which it travels which inputs a module's tensor has."""
    return f"{tensor}.inputs"


def slice_card(
    *,
    learner: str = "fedsub_papers.client.parts.slices:SliceLearner",
    holds: str = "fedsub_papers.models.pools:whole",
    up: str = "the units that were sent, trained",
    down: str = "some units of each hidden layer",
    sends: Callable[[Architecture, Any], Declaration] = sliced_model,
    receives: Callable[[Architecture, Any], Declaration] = sliced_model,
    privacy: str = SEES_SUB_MODELS,
    decisions: tuple[str, ...] = (),
    **own: Any,
) -> MethodCard:
    """Return the card of such a method; by default a device has room for the whole model."""
    return MethodCard(
        learner=learner,
        up=up,
        down=down,
        sends=sends,
        receives=receives,
        weak=WeakDevices("model", holds),
        privacy=privacy,
        decisions=(*decisions, *DECISIONS),
        **own,
    )
