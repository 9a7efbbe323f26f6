"""FedProto: everybody's own model, whose embeddings are pulled to the common class means."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import Sums
from fedsub_core.method_parts.prototypes import (
    adds_prototypes,
    asked_prototypes,
    refused_in_sums,
    sent_prototypes,
    weights,
)
from fedsub_core.methods.card import Cost, Hyperparameters, MethodCard
from fedsub_core.methods.card_parts import Prediction
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FedProtoHyperparameters(Hyperparameters):
    """Defaults of the authors' code."""

    lam: float = option(1.0, "weight of the pull to the prototypes; 0 is local training", minimum=0)
    weights: str = weights()
    predict: str = choice(
        "head",
        "nearest",
        doc="how a sample's class is predicted: by the head, or as that of the nearest prototype",
    )


def cost(hyper: FedProtoHyperparameters, epochs: int) -> Cost:
    """Training, and one forward pass for the prototypes."""
    return Cost(epochs + 0.33)


CARD = MethodCard(
    name="fedproto",
    idea="every person has their own model; only class means of embeddings travel, and "
    "embeddings are pulled to them",
    paper="Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, "
    "AAAI 2022",
    learner="fedsub_client.methods.fedproto:FedProtoLearner",
    strategy="strategies.methods.prototypes:PrototypeServer",
    sums=Sums(
        learner="fedsub_client.methods.fedproto:SummedFedProtoLearner",
        strategy="strategies.methods.prototypes:SummedPrototypeServer",
        refuses=refused_in_sums,
        adds=adds_prototypes,
    ),
    hyperparameters=FedProtoHyperparameters,
    up="the mean embedding of each class held (with weights = samples also its sample counts)",
    down="the mean of these means, of each class that anybody has sent",
    sends=sent_prototypes,
    receives=asked_prototypes,
    cost=cost,
    prediction=Prediction(
        "fedsub_client.methods.fedproto:NearestPrototype",
        # Prototypes are as large as the head.
        models=lambda hyper: 1 + (hyper.predict == "nearest"),
    ),
    choose="Few bytes may travel, or no model may leave a device. Each person needs enough "
    "data to train a model alone.",
    privacy="No model leaves a device. The server sees each person's mean embedding of every class "
    "and so which classes that person has; with weights = samples also how many samples of each. "
    "These are statistics of a person. Other devices see means over people: where a single person "
    "has a class, that mean is that person's own. With "
    "secure-aggregation the server sees only sums over enough people (docs/privacy.md).",
    decisions=(
        "Prototypes have the same weight for each client (weights = clients), as in the "
        "authors' code. The paper's weights need each person's number of samples of each "
        "class, which reveals something about the person. weights = samples sends it, for "
        "people who agreed.",
        "Prototypes are taken after training, in one forward pass over the training data.",
        "Classes that nobody sends in a round keep their last mean.",
        "All models start from the same weights; the authors' start from different ones.",
        "The robust filters of the run are applied to each class's prototypes.",
        "predict = nearest: logits are minus the mean squared distance to each prototype. "
        "Classes without a prototype get the smallest logit minus 1. Before there are "
        "prototypes, the head predicts. The loss is that of these logits and cannot be "
        "compared with a head's. The last received prototypes are part of the person's model, "
        "also when it is exported.",
    ),
    errors=(
        "The paper's mean of prototypes divides by the number of clients and also weighs by "
        "shares of samples, so it normalises twice. Here the weights sum to 1.",
        "The paper says L2 distance. Its code uses the mean squared error, which is 1/d as "
        "strong for embeddings of d numbers. This is used here, too.",
        "The authors' code averages embeddings while the model that computes them is still "
        "training.",
    ),
)
