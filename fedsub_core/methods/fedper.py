"""FedPer: a common body, everybody's own head, trained together."""

from __future__ import annotations

from fedsub_core.addends import MEANS
from fedsub_core.method_parts.layers import HeadHyperparameters, body
from fedsub_core.methods.card import MethodCard

CARD = MethodCard(
    name="fedper",
    idea="FedAvg of the body alone; the last layer stays personal",
    paper="Arivazhagan et al., Federated Learning with Personalization Layers, 2019",
    learner="fedsub_client.methods.fedavg:FedAvgLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=HeadHyperparameters,
    up="the body",
    down="the body",
    sends=body,
    receives=body,
    choose="People label or wear sensors differently, and devices can do no more work than "
    "for FedAvg. Works well with standardise = client.",
    privacy="The server sees the body of each person's model after training; the head stays at "
    "home. Other devices see only means of bodies.",
    decisions=(
        "The head is the last layer with weights; head-layers makes it larger. A head that is "
        "the whole model is refused.",
        "Head and body train together, with one optimiser.",
        "The received body is tested with the person's own head.",
    ),
    regression=True,
)
