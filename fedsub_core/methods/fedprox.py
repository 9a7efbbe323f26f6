"""FedProx: FedAvg with a leash."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters
from fedsub_core.options import option


@dataclass(frozen=True)
class FedProxHyperparameters(ReceivedHyperparameters):
    """The paper tunes mu over 0.001 to 1."""

    mu: float = option(0.01, "weight of the pull to the global model; 0 is FedAvg", minimum=0)


CARD = MethodCard(
    name="fedprox",
    idea="FedAvg whose local training is pulled to the global model",
    paper="Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
    learner="fedsub_client.learners.fedprox:FedProxLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=FedProxHyperparameters,
)
