"""Ditto: a personal model beside FedAvg's, pulled to it."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import Cost, Hyperparameters, MethodCard
from fedsub_core.options import option


@dataclass(frozen=True)
class DittoHyperparameters(Hyperparameters):
    """The authors' code trains both models for the same epochs, with lambda 1."""

    lam: float = option(
        1.0, "weight of the pull to the global model; 0 is local training", minimum=0
    )
    personal_epochs: int = option(0, "epochs of the personal model; 0 = the run's", minimum=0)


def cost(hyper: DittoHyperparameters, epochs: int) -> Cost:
    """Return the cost of training two models."""
    return Cost(epochs + (hyper.personal_epochs or epochs))


CARD = MethodCard(
    name="ditto",
    idea="a personal model trained beside FedAvg's, pulled to it",
    paper="Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021",
    learner="fedsub_client.methods.ditto:DittoLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=DittoHyperparameters,
    cost=cost,
    choose="Nobody knows how similar people are: lam goes from local training (0) to the "
    "global model (large). Devices must be able to train two models.",
    privacy="The server sees each person's copy of the global model after training; the personal "
    "model stays at home. Other devices see only means of the copies.",
    decisions=(
        "The pull is to the global model as received, not to the copy that the device trains.",
        "Both models train on the same batches. The authors' code alternates between the "
        "models from batch to batch, which gives the same numbers.",
        "The mean is weighted by samples, and people are drawn uniformly. The authors' code "
        "uses an unweighted mean, and draws people in proportion to their samples.",
        "A personal model starts from the first model that its device receives. If the device "
        "is first drawn late, others have already trained that model.",
        "lam is one number for all; the authors' code can choose it for each device by validation.",
    ),
    errors=("PFLlib's default lambda is 0, which is local training.",),
    regression=True,
)
