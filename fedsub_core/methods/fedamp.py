"""FedAMP: every person starts from a mean of their own, of models like theirs."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import Hyperparameters, MethodCard
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FedAMPHyperparameters(Hyperparameters):
    """alpha and gauss's sigma are PFLlib's, mu is flgo's."""

    similarity: str = choice(
        "cosine",
        "gauss",
        doc="how the weights of models for each other are computed: by the angle between them "
        "(the paper's heuristic for deep networks) or by their distance",
    )
    cosine_sigma: float = option(
        25.0, "cosine: how much more nearer models count; 0 is the plain mean", minimum=0
    )
    own_weight: float = option(
        0.0,
        "cosine: share of the person's own model in the mean; 0 = 1 / number of people",
        minimum=0,
        below=1,
    )
    alpha: float = option(1.0, "gauss: how much others count", above=0)
    gauss_sigma: float = option(
        1.0, "gauss: squared distance at which models count as far", above=0
    )
    mu: float = option(1e-4, "weight of the pull to the received mean", minimum=0)


CARD = MethodCard(
    name="fedamp",
    idea="every person trains from a mean of their own, in which similar people's models "
    "count more",
    paper="Huang et al., Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021",
    learner="fedsub_client.methods.fedprox:FedProxLearner",
    strategy="strategies.methods.fedamp:FedAMPServer",
    hyperparameters=FedAMPHyperparameters,
    down="a model of one's own",
    choose="People are more or less similar rather than in clear groups, and there are at "
    "most hundreds: the server compares all pairs of models. Avoid similarity = gauss, unless "
    "gauss-sigma is near the models' squared distances.",
    privacy="The server sees each person's model after training, and keeps the last one until "
    "the person is forgotten. A device receives a mean in which few people count much. With "
    "two people, each can compute the other's model. With more, the mean reveals much of the "
    "model that counts most.",
    decisions=(
        "The paper does not say where local training starts. Here it starts from the person's "
        "mean, to which the pull also goes. If it started from the person's own model, one "
        "epoch would hardly mix models.",
        "mu is the paper's lambda / alpha_k, and the pull is mu / 2 times the squared distance.",
        "All models that the server knows take part in the means, also of people who were not "
        "asked in the round.",
        "A person who has not sent a model gets the unweighted mean of all. Before the first "
        "round everybody has the common initial model.",
        "In gauss, weights of others that sum to more than 1 are scaled to 1.",
        "The robust filter clip works relative to each person's own model: nobody pulls it by "
        "more than three times the median distance of the others. Other filters are refused.",
        "A forgotten person's weight in other people's means goes to their own models, until "
        "the next round computes new weights.",
    ),
    errors=(
        "The paper's gauss weights vanish between models with many numbers, unless "
        "gauss-sigma is about their squared distance. fedamp is then local training. The sum "
        "of the weights is reported as weight_of_others, and a warning says so.",
        "PFLlib starts training from the person's own model, and its pull uses the distance "
        "without the square. This is not followed.",
    ),
    regression=True,
)
