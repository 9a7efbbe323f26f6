"""What cards declare of methods that exchange class means of embeddings (prototypes)."""

from __future__ import annotations

from typing import Any

from fedsub_core.addends import Addend, masks
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice
from fedsub_core.wire.bundles import Declaration, dense, rows

#: Names of what travels beside parameters, which go by their names in the model.
PROTOTYPES, COUNTS = "prototypes", "counts"
#: In a run of secure sums: of which classes a download asks for prototypes, and how many people
#: have each class.
ASKED, HOLDERS = "asked", "holders"


def weights() -> Any:
    """Return the hyperparameter that says what counts in the mean of a class's prototypes."""
    return choice(
        "clients",
        "samples",
        doc="weights in the mean of prototypes: 1 for each client, or its samples of the "
        "class; these then travel, and people must have agreed to it",
    )


def sent_prototypes(model: Architecture, hyper: Any) -> Declaration:
    """Declare the prototypes of the classes that a device holds, and their samples if they count.

    Counts, float32 whole numbers ``[classes]``, are 0 for other classes.
    """
    declared = {PROTOTYPES: rows((model.classes, model.embedding_size))}
    if hyper.weights == "samples":
        declared[COUNTS] = dense((model.classes,), exact=True)
    return declared


def received_prototypes(model: Architecture, hyper: Any) -> Declaration:
    """Declare the prototypes of the classes that the server has some of."""
    return {PROTOTYPES: rows((model.classes, model.embedding_size), optional=True)}


def asked_prototypes(model: Architecture, hyper: Any) -> Declaration:
    """Declare prototypes, and of which classes they are asked for where they are summed."""
    return {**received_prototypes(model, hyper), **masks(adds_prototypes(model, hyper))}


def adds_prototypes(model: Architecture, hyper: Any) -> list[Addend]:
    """Return the addends of classes: whether a person has each, and its prototypes."""
    rows = Addend(PROTOTYPES, (model.classes, model.embedding_size), ASKED)
    return [Addend(HOLDERS, (model.classes,), counts=ASKED), rows]


def refused_in_sums(hyper: Any) -> str:
    """Return the options that secure sums refuse: samples of a class would be another's weight."""
    if hyper.weights == "clients":
        return ""
    got, expected = f"weights = {hyper.weights}", "weights = clients: each person counts once"
    return f"{got}, with which people's samples of each class travel, expected {expected}"
