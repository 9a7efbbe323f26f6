"""What cards have in common whose weak devices train and send single numbers of the model."""

from __future__ import annotations

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
    "A device of capacity c receives floor(c * c * d) of the model's d numbers, weights and "
    "biases: those with the highest scores. Only these are trained and sent; the others are "
    "0. Running statistics of norms are not counted: everybody has them.",
    "A number's score is |w| * sqrt(fan_in), its size over that of a plain start. By size alone "
    "(score = magnitude, the paper's) the numbers of layers with few inputs win: of an mlp with 3 "
    "inputs a device of c = 1/2 is sent no number of the last layer, and nothing trains.",
    "A mask travels with the numbers, one bit for each of the model (0.031 of it, before zstd): "
    "at c = 1/8 twice what the numbers take.",
    "Arithmetic is saved on paper alone: with numbers that are not 0 a weak device makes some of a "
    "step's multiplications (multiplications_counted in the metrics), ordinary hardware really "
    "makes all of them (multiplications_real). It holds the whole shapes, too. Devices that lack "
    "memory need methods that narrow layers, as heterofl.",
    "With an mlp, hardly a path from samples to classes is left at c = 1/8; the server warns "
    "of it.",
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
