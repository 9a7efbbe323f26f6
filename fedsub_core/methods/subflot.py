"""SubFLOT: sub-models that follow what each device trained last."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import ReceivedHyperparameters, whole_model
from fedsub_core.methods.sub_models import sub_model_card
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class SubFLOTHyperparameters(ReceivedHyperparameters):
    """The paper's, section 5."""

    alpha: float = option(
        0.5, "share of the global model beside what the device sent last", minimum=0, maximum=1
    )
    mu: float = option(
        1.0, "pull to what was received, times the share of units that the device lacks", minimum=0
    )
    otp: bool = option(True, "whether the global model's units are brought to the device's last")
    proxy: str = choice(
        "history",
        "prefix",
        "magnitude",
        "random",
        doc="what the global model is brought to: what the device sent last, or its own first, "
        "largest or drawn units",
    )
    sar: bool = option(True, "whether training is pulled to what was received")
    ota: bool = option(True, "whether what comes back is brought to the global model's units")
    inputs: str = choice(
        "mean",
        "sum",
        doc="what inputs become whose units are merged: mean, as the paper's scaling, or sum, "
        "which leaves what the layer sees as large as it was",
    )
    plan: str = choice(
        "exact",
        "sinkhorn",
        doc="optimal transport: exact (POT) or smoothed by entropy, which needs no package",
    )


CARD = sub_model_card(
    name="subflot",
    idea="the server brings the global model's units to those that a device trained last, by "
    "optimal transport, and brings back what it trains",
    paper="SubFLOT: Efficient Personalized Federated Learning via Submodel Extraction with Optimal "
    "Transport, 2026",
    learner="fedsub_client.methods.subflot:SubFLOTLearner",
    strategy="strategies.methods.subflot:SubFLOTStrategy",
    hyperparameters=SubFLOTHyperparameters,
    sends=whole_model,
    masked=False,
    choose="Some devices cannot hold the model, and people differ: what a weak device gets is made "
    "of its own last model, too. The server needs time for the plans, and keeps everybody's last "
    "model.",
    decisions=(
        "alpha weighs the global model; the paper says both sides in different sections, at one "
        "half it is the same.",
        "Plans have columns scaled to sum 1, as in OTFusion's code: the printed formulas would "
        "shrink every unit by their number.",
        "A unit of a layer is compared by its weights and bias side by side, in Euclid's distance.",
        "Who has sent nothing yet, or had another capacity then, is sent the first units of each "
        "layer (as heterofl).",
        "What is pulled to is the model as received. At capacity 1 nothing is.",
        "Without ota uploads count in the places of the first units; without otp these are sent.",
        "Means are weighted by samples.",
        "proxy = prefix, magnitude and random are the paper's ablation: the global model is "
        "brought to a part of itself. random is drawn anew for each person and round.",
    ),
)
