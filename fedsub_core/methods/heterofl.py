"""HeteroFL: weak devices hold the first units of each layer."""

from __future__ import annotations

from fedsub_core.methods.sub_models import sub_model_card

CARD = sub_model_card(
    name="heterofl",
    idea="a weak device trains the first units of each hidden layer; each number is the mean over "
    "those who hold it",
    paper="Diao et al., HeteroFL: Computation and Communication Efficient Federated Learning for "
    "Heterogeneous Clients, ICLR 2021",
    strategy="strategies.methods.heterofl:HeteroFLStrategy",
    choose="Some devices cannot hold the model. The simplest of its kind: what a weak device gets "
    "is a model that stays the same from round to round, and every smaller one lies in it.",
    decisions=("All clients count alike, as in the code; weights = examples counts samples.",),
)
