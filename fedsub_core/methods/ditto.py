"""Ditto: a personal model beside FedAvg's, pulled to it."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import Cost, Hyperparameters, MethodCard
from fedsub_core.options import option


@dataclass(frozen=True)
class DittoHyperparameters(Hyperparameters):
    """The authors' code trains both models for the same epochs, with lambda 1."""

    lam: float = option(1.0, "weight of the pull to the global model; 0 is local", minimum=0)
    personal_epochs: int = option(0, "epochs of the personal model; 0 = the run's", minimum=0)


def cost(hyper: DittoHyperparameters, epochs: int) -> Cost:
    """Return the cost of training two models."""
    return Cost(epochs + (hyper.personal_epochs or epochs))


CARD = MethodCard(
    name="ditto",
    idea="a personal model trained beside FedAvg's, pulled to it",
    paper="Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021",
    learner="fedsub_client.learners.ditto:DittoLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=DittoHyperparameters,
    cost=cost,
)
