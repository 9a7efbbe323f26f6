"""FedCHAR: Ditto, then Ditto inside groups of people whose first updates point the same way."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.method_parts.phases import group_count, phase, require_within
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.ditto import DittoHyperparameters, cost
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FedCHARHyperparameters(DittoHyperparameters):
    """lambda of the authors' code; three groups as in CA-AFP's comparison (the authors: 2)."""

    cluster_round: int = option(
        0,
        "round after which people are divided into groups; 0 = after a tenth of the run's rounds",
        minimum=0,
    )
    k_selection: str = group_count("fixed:3")
    linkage: str = choice(
        "complete", "average", "single", doc="how the distance of two groups is computed"
    )


def divides_in(hyper: FedCHARHyperparameters, rounds: int) -> int:
    """Return the round after whose uploads people are divided."""
    return phase(hyper.cluster_round, rounds, 0.1)


def check(hyper: FedCHARHyperparameters, rounds: int) -> None:
    """Refuse to divide after the run."""
    require_within("fedchar", "cluster-round", divides_in(hyper, rounds), rounds)


CARD = MethodCard(
    name="fedchar",
    idea="Ditto, then Ditto inside groups of people whose updates point the same way",
    paper="Li et al., Hierarchical Clustering-based Personalized Federated Learning for Robust and "
    "Fair Human Activity Recognition, IMWUT 2023",
    learner="fedsub_client.methods.ditto:DittoLearner",
    strategy="strategies.methods.fedchar:FedCHARServer",
    hyperparameters=FedCHARHyperparameters,
    up="the model",
    down="the group's model",
    cost=cost,
    fixes_rounds=lambda hyper: not hyper.cluster_round,
    check=check,
    choose="People fall into a few clear types (if their number is unknown, set k-selection = "
    "silhouette), and devices can train two models.",
    privacy="The server sees each person's model after training, and who is like whom. Other "
    "devices see means over a group; of a group of two, each can work out the other's model.",
    decisions=(
        "The authors' code trains once more to find updates. Here the updates of the round "
        "after which people are divided are used.",
        "A personal model starts from the first model that its device receives.",
        "Groups start from the model that is the mean over all, as in the authors' code.",
        "Means are weighted by samples, and the people of a round are drawn uniformly. The "
        "authors' code uses an unweighted mean, and draws people in proportion to their "
        "samples.",
        "A person who first uploads after the division joins the group with the nearest mean "
        "update. Until then they get the mean of the groups' models, weighted by members.",
    ),
    errors=("The authors' script trains WISDM's global model with Adam: not followed.",),
)
