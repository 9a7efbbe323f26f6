"""Federated Dropout: weak devices hold units that are drawn anew."""

from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import SubModelHyperparameters, sub_model_card
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FedDropHyperparameters(SubModelHyperparameters):
    """Draws of each client's own, as in the paper."""

    per_client: bool = option(True, "draw units for each client; else once for all")
    rule: str = choice(
        "holders",
        "residual",
        doc="how a number is averaged: over the devices that hold it, or over all, where the "
        "others count with its old value",
    )


CARD = sub_model_card(
    name="feddrop",
    idea="as heterofl, but a weak device's units are drawn at random in each round",
    paper="Caldas et al., Expanding the Reach of Federated Learning by Reducing Client Resource "
    "Requirements, 2018",
    strategy="fedsub_papers.strategies.methods.feddrop:FedDropServer",
    hyperparameters=FedDropHyperparameters,
    choose="For comparison only: units are not chosen to fit together, and a device is tested "
    "with units that never trained together.",
    decisions=(
        "Units are drawn without replacement, for each client, round and layer.",
        "Values are not divided by the share of units that is kept.",
    ),
)
