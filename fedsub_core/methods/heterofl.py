"""HeteroFL: weak devices hold the first units of each layer."""

from __future__ import annotations

from fedsub_core.method_parts.sub_models import sub_model_card

CARD = sub_model_card(
    name="heterofl",
    idea="a weak device trains the first units of each hidden layer; each number is averaged "
    "over the devices that hold it",
    paper="Diao et al., HeteroFL: Computation and Communication Efficient Federated Learning for "
    "Heterogeneous Clients, ICLR 2021",
    strategy="strategies.methods.heterofl:HeteroFLServer",
    choose="Some devices cannot hold the model. It is the simplest such method: a weak device "
    "holds the same units in every round, and every smaller model is part of the larger ones.",
    decisions=(
        "All clients have the same weight, as in the code; weights = examples weighs by samples.",
    ),
)
