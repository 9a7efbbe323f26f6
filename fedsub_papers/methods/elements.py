"""What cards have in common whose weak devices train and send single numbers of the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.models.architecture import Architecture, Shape
from fedsub_core.options import choice
from fedsub_core.wire.bundles import Declaration, dense, elements

#: What the cards of all of these decide alike.
DECISIONS = (
    "A device of capacity c receives floor(c * c * d) of the model's d numbers (weights and "
    "biases): those with the highest scores. Only these are trained and sent; the others are 0. "
    "Running statistics of norms are not counted: everybody has them.",
    "A number's score is |w| * sqrt(fan_in): its absolute value, relative to the usual one at the "
    "start. The paper's score is the absolute value alone (score = magnitude). It prefers layers "
    "with few inputs: with an mlp of 3 inputs, a device of c = 1/2 receives no number of the last "
    "layer, and nothing trains.",
    "A mask travels with the numbers, one bit for each number of the model. Before zstd this is "
    "0.031 of the model, and at c = 1/8 twice what the numbers take.",
    "Less computation is needed only in theory. A weak device would make fewer multiplications in "
    "a step if those by 0 were skipped (metric multiplications_counted). Ordinary hardware makes "
    "all of them (multiplications_real). The device also keeps all tensors in their full shapes. "
    "Devices that lack memory need a method that narrows layers, such as heterofl.",
    "With an mlp at c = 1/8, almost no path of numbers other than 0 leads from the inputs to the "
    "classes; the server warns of it.",
)


@dataclass(frozen=True)
class ElementHyperparameters(ReceivedHyperparameters):
    """Of methods whose weak devices hold the numbers of highest score."""

    scope: str = choice(
        "global",
        "layer",
        doc="whether a weak device holds the best numbers of the whole model, or of each layer",
    )
    score: str = choice(
        "scaled",
        "magnitude",
        doc="a number's score: its absolute value times the root of fan_in, or its absolute "
        "value alone",
    )


def element_model(model: Architecture, hyper: Any) -> Declaration:
    """Declare the model, of what is trained single numbers."""
    return {
        name: elements(shape) if name in model.trained else dense(shape)
        for name, shape in model.parameter_shapes.items()
    }


def scales(shapes: Mapping[str, Shape], score: str) -> dict[str, float]:
    """Return by what each tensor's sizes are multiplied in a score.

    fan_in is the number of weights of one unit; a bias has its layer's, a norm's weights have 1.
    """
    if score == "magnitude":
        return dict.fromkeys(shapes, 1.0)
    found = {}
    for name, shape in shapes.items():
        weight = shapes.get(f"{layer_of(name)}.weight", ())
        of = shape if len(shape) > 1 else weight
        found[name] = prod(of[1:]) ** 0.5
    return found


def layer_of(name: str) -> str:
    """Return the layer of a tensor."""
    return name.rpartition(".")[0]
