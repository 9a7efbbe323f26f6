"""ProtoHAR: FedRep, whose body is pulled to common class means of embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import Addend, Sums
from fedsub_core.method_parts.layers import HeadHyperparameters, body, head_cost
from fedsub_core.method_parts.prototypes import (
    adds_prototypes,
    asked_prototypes,
    refused_in_sums,
    sent_prototypes,
    weights,
)
from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.methods.card_parts import Training
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration


@dataclass(frozen=True)
class ProtoHARHyperparameters(HeadHyperparameters):
    """Defaults of the authors' script; its head learns 10 times as fast as its body."""

    lam: float = option(1.0, "weight of the pull to the prototypes; 0 is fedrep", minimum=0)
    weights: str = weights()
    variant: str = choice(
        "paper",
        "repo",
        doc="what a prototype is: the class's mean (paper), or what the public code sends",
    )
    head_epochs: int = option(1, "epochs of the head, with the body frozen", minimum=0)
    head_lr_factor: float = option(
        1.0, "the head's learning rate, as a multiple of the run's", above=0
    )


def sends(model: Architecture, hyper: ProtoHARHyperparameters) -> Declaration:
    """Declare the body and prototypes."""
    return {**body(model, hyper), **sent_prototypes(model, hyper)}


def receives(model: Architecture, hyper: ProtoHARHyperparameters) -> Declaration:
    """Declare the body and the means of prototypes."""
    return {**body(model, hyper), **asked_prototypes(model, hyper)}


def adds(model: Architecture, hyper: ProtoHARHyperparameters) -> list[Addend]:
    """Return the addends of a person: the change of its body, and those of classes."""
    moved = [Addend(n, one.shape, weighted=True) for n, one in body(model, hyper).items()]
    return [*moved, *adds_prototypes(model, hyper)]


def cost(hyper: ProtoHARHyperparameters, epochs: int) -> Cost:
    """Both phases, and one forward pass for the prototypes."""
    return Cost(head_cost(hyper.head_epochs) + epochs + 0.33)


CARD = MethodCard(
    name="protohar",
    idea="FedRep, with the body's embeddings pulled to common class means",
    paper="Cheng et al., ProtoHAR: Prototype Guided Personalized Federated Learning for Human "
    "Activity Recognition, IEEE Journal of Biomedical and Health Informatics 2023",
    learner="fedsub_client.methods.protohar:ProtoHARLearner",
    strategy="strategies.methods.prototypes:PrototypeServer",
    sums=Sums(
        learner="fedsub_client.methods.protohar:SummedProtoHARLearner",
        strategy="strategies.methods.prototypes:SummedPrototypeServer",
        refuses=refused_in_sums,
        adds=adds,
    ),
    hyperparameters=ProtoHARHyperparameters,
    up="the body, the mean embedding of each class held (with weights = samples also its counts)",
    down="the body, the mean of these means",
    sends=sends,
    receives=receives,
    cost=cost,
    training=Training(rates=("head_lr_factor",)),
    choose="As fedrep (people label alike and move differently), if bodies drift apart "
    "between rounds because people lack classes.",
    privacy="The server sees each person's body after training, its mean embedding of every class "
    "and so which classes that person has; with weights = samples also how many samples of each. "
    "These are statistics of a person. Other devices see means over people: where a single person "
    "has a class, its mean embedding is that person's own. Heads stay at home. With "
    "secure-aggregation the server sees only sums over enough people (docs/privacy.md).",
    decisions=(
        "Prototypes have the same weight for each client, as in the authors' code. weights = "
        "samples sends each person's number of samples of each class, for people who agreed.",
        "Prototypes are taken after training, in one forward pass over the training data.",
        "Bodies are averaged with weights by samples. Classes that nobody sends keep their "
        "last mean.",
        "The robust filters of the run are applied to bodies, and to each class's prototypes.",
        "The authors' code clips gradients at 50; here they are clipped only if the run says "
        "so (clip-norm).",
    ),
    errors=(
        "The authors' code compares the length of an embedding with a cap of 100 samples. "
        "With more than 100 numbers (512 in the papers' model), it therefore sends the "
        "embedding of one sample divided by the number of the class's samples. This is nearly "
        "0, so its pull shrinks embeddings. variant = repo sends it, for the class's first "
        "sample in the order of the body's first epoch, embedded after training. variant = "
        "paper sends the mean.",
        "For embeddings of up to 100 numbers, that code sends the mean times the number of "
        "epochs; neither variant does.",
        "The authors' code has the default lambda = 0.1; its script for the paper sets 1.",
    ),
)
