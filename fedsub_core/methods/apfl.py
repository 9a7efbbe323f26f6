"""APFL: a mix of the global model and one's own."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import Cost, MethodCard, ReceivedHyperparameters
from fedsub_core.options import option


@dataclass(frozen=True)
class APFLHyperparameters(ReceivedHyperparameters):
    """alpha moves by the chain rule, as in the paper; its rate is the run's ``lr``."""

    alpha: float = option(
        0.5, "share of one's own model in the mix, at first", minimum=0, maximum=1
    )
    adaptive: bool = option(True, "each device learns its alpha")


def cost(hyper: APFLHyperparameters, epochs: int) -> Cost:
    """Return the cost of training two models."""
    return Cost(2 * epochs)


CARD = MethodCard(
    name="apfl",
    idea="a mix of the global model and one's own, in a share that each device learns",
    paper="Deng et al., Adaptive Personalized Federated Learning, 2020",
    learner="fedsub_client.learners.apfl:APFLLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=APFLHyperparameters,
    cost=cost,
    reports=("alpha",),
)
