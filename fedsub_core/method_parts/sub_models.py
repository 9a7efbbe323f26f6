"""What the cards of methods have in common whose weak devices hold some units of each layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters, whole_model
from fedsub_core.methods.card_parts import WeakDevices
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, rows

SEES_SUB_MODELS = (
    "The server sees each person's part of the model after training; other devices see only means."
)
PRIVACY = (
    "The server sees each person's part of the model after training, and which classes the person "
    "has samples of, unless masked-loss is off. Other devices see only means."
)
UNITS_STAY = (
    "smooth is only for devices whose units stay the same. If units change from round to "
    "round, an average of models would mix different units."
)
#: What the cards of all of these decide alike.
DECISIONS = (
    "A device of capacity c holds max(1, ceil(c * units)) units of each hidden layer. It "
    "builds, trains, stores and sends only that model, c * c of the full one. Inputs and "
    "classes are never left out.",
    "The model is tested as received: the part that the device gets for the next round.",
    UNITS_STAY,
    "HeteroFL scales hidden layers by 1 / c in training; this is left out. A following norm "
    "cancels the scale, and without a norm it makes the first logits of a device of c = 1/16 "
    "sixteen times as large.",
    "With masked-loss, the last layer's rows of classes without a training sample are 0 in "
    "training, and are not sent. So their logits are 0, as in HeteroFL's code, not minus "
    "infinity. In tests nothing is masked.",
)


@dataclass(frozen=True)
class SubModelHyperparameters(ReceivedHyperparameters):
    """The hyperparameters of methods whose weak devices hold some units of each hidden layer."""

    weights: str = choice(
        "clients", "examples", doc="weight of an upload in means: 1 for each client, or its samples"
    )
    masked_loss: bool = option(
        True, "leave classes that a person lacks out of its loss and its upload"
    )


def ascending_shares(key: str, text: str) -> tuple[float, ...]:
    """Return the shares that an option's text lists, such as ``0.25,0.5,1``.

    Raises ConfigError if they do not ascend, or one is none; it names `key`.
    """
    try:
        shares = tuple(map(float, text.split(",")))
    except ValueError:
        shares = ()
    ascending = all(first < second for first, second in pairwise(shares))
    if not shares or not ascending or not 0 < shares[0] <= shares[-1] <= 1:
        raise ConfigError(f"{key}: got {text!r}, expected ascending shares above 0, at most 1")
    return shares


def sends(model: Architecture, hyper: Any) -> Declaration:
    """Declare the device's model, of its last layer the rows of the person's classes."""
    declared = whole_model(model, hyper)
    if not hyper.masked_loss:
        return declared
    last = model.parameters_of(model.layer_names[-1:])
    return {n: rows(d.shape) if n in last else d for n, d in declared.items()}


def sub_model_card(
    *,
    learner: str = "fedsub_client.methods.heterofl:HeteroFLLearner",
    hyperparameters: type[Any] = SubModelHyperparameters,
    decisions: tuple[str, ...] = (),
    masked: bool = True,
    sends: Callable[[Architecture, Any], Declaration] = sends,
    **own: Any,
) -> MethodCard:
    """Return the card of such a method; by default its device half is HeteroFL's.

    `masked` : whether it knows the option ``masked-loss``.
    """
    rows_alone = ", of the last layer the person's classes" if masked else ""
    return MethodCard(
        learner=learner,
        hyperparameters=hyperparameters,
        up=f"the device's part of the model{rows_alone}",
        down="the device's part of the model",
        sends=sends,
        weak=WeakDevices("model", resizes=True),
        privacy=PRIVACY if masked else SEES_SUB_MODELS,
        decisions=(*decisions, *DECISIONS[: None if masked else -1]),
        **own,
    )
