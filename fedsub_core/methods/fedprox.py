"""FedProx: FedAvg with a leash."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters
from fedsub_core.options import option


@dataclass(frozen=True)
class FedProxHyperparameters(ReceivedHyperparameters):
    """The paper tunes mu over 0.001 to 1."""

    mu: float = option(0.01, "weight of the pull to the global model; 0 is FedAvg", minimum=0)


CARD = MethodCard(
    name="fedprox",
    idea="FedAvg, with local training pulled to the global model",
    paper="Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
    learner="fedsub_client.methods.fedprox:FedProxLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=FedProxHyperparameters,
    choose="You want FedAvg, but people differ so much, or devices train so long, that their "
    "models drift apart within a round.",
    decisions=(
        "The paper tunes mu over 0.001 to 1; the default is 0.01.",
        "The pull is mu / 2 times the squared distance, summed over all weights and biases.",
        "Every device trains for the run's epochs. The paper also has devices that train "
        "less, each as it can; these are left out.",
    ),
    errors=("PFLlib's default mu is 0, which is FedAvg.",),
    regression=True,
)
