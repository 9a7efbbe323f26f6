"""Federated Dropout: weak devices hold units that are drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.sub_models import SubModelHyperparameters, sub_model_card
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FedDropHyperparameters(SubModelHyperparameters):
    """Draws of each client's own, as in the paper."""

    per_client: bool = option(True, "whether each client has a draw of its own; else one for all")
    rule: str = choice(
        "holders",
        "residual",
        doc="what a number becomes: the mean over who holds it, or of who does not, as it was",
    )


CARD = sub_model_card(
    name="feddrop",
    idea="as heterofl, but which units a weak device trains is drawn in each round",
    paper="Caldas et al., Expanding the Reach of Federated Learning by Reducing Client Resource "
    "Requirements, 2018",
    strategy="strategies.methods.feddrop:FedDropStrategy",
    hyperparameters=FedDropHyperparameters,
    choose="To be compared with: nothing says which units belong together, and a device is tested "
    "with units that never trained together.",
    decisions=(
        "Units are drawn without replacement, for each client, round and layer.",
        "Values are not divided by the share of units that is kept.",
    ),
)
