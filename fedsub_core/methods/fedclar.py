"""FedCLAR: FedAvg, divided once into groups of people whose models are alike."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.method_parts.phases import phase, require_within
from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FedCLARHyperparameters(ReceivedHyperparameters):
    """Defaults of FedSub's comparison: divided in round 160 of 300, or 500 of 1000."""

    cluster_round: int = option(
        0,
        "round after which people are divided into groups; 0 = after half of the run's rounds",
        minimum=0,
    )
    threshold: float = option(
        1e-4, "cosine distance up to which groups are joined", minimum=-1, maximum=2
    )
    linkage: str = choice(
        "average", "complete", "single", doc="how the distance of two groups is computed"
    )
    similarity: str = choice(
        "model", "update", doc="what is compared: models, or their changes in training"
    )
    finetune_epochs: int = option(1, "epochs of fine-tuning in the last round", minimum=0)


def divides_in(hyper: FedCLARHyperparameters, rounds: int) -> int:
    """Return the round after whose uploads people are divided."""
    return phase(hyper.cluster_round, rounds, 0.5)


def check(hyper: FedCLARHyperparameters, rounds: int) -> None:
    """Refuse to divide after the run."""
    require_within("fedclar", "cluster-round", divides_in(hyper, rounds), rounds)


CARD = MethodCard(
    name="fedclar",
    idea="FedAvg, then FedAvg within groups of people with similar models, and fine-tuning at "
    "the end",
    paper="Presotto et al., FedCLAR: Federated Clustering for Personalized Sensor-Based Human "
    "Activity Recognition, PerCom 2022",
    learner="fedsub_client.methods.fedclar:FedCLARLearner",
    strategy="strategies.methods.fedclar:FedCLARServer",
    hyperparameters=FedCLARHyperparameters,
    up="the model",
    down="the group's model",
    fixes_rounds=lambda hyper: True,
    check=check,
    choose="People fall into clear types, nobody knows how many, and all can send models for "
    "half of a run before groups are made. Check the number of groups first: with one group "
    "the method is FedAvg, with as many groups as people it is local.",
    privacy="The server sees each person's model after training, and who is like whom. Other "
    "devices see means over a group; of a group of two, each can work out the other's model.",
    decisions=(
        "The paper does not say what is compared. A threshold of 1e-4 fits complete models; "
        "with updates it would isolate everybody (similarity = update).",
        "The paper does not name the linkage; average is used.",
        "A person who first uploads after the division joins the group with the nearest mean "
        "model. Until then they get the mean of the groups' models, weighted by members.",
        "An evaluation in the last round additionally costs the epochs of fine-tuning.",
    ),
)
