"""APFL: a mix of the global model and one's own."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import Cost, MethodCard, ReceivedHyperparameters
from fedsub_core.options import option


@dataclass(frozen=True)
class APFLHyperparameters(ReceivedHyperparameters):
    """alpha moves by the chain rule, as in the paper; its rate is the run's ``lr``."""

    alpha: float = option(
        0.5, "initial share of the person's own model in the mix", minimum=0, maximum=1
    )
    adaptive: bool = option(True, "let each device learn its alpha")


def cost(hyper: APFLHyperparameters, epochs: int) -> Cost:
    """Return the cost of training two models."""
    return Cost(2 * epochs)


CARD = MethodCard(
    name="apfl",
    idea="a mix of the global model and a person's own model; each device learns the share of each",
    paper="Deng et al., Adaptive Personalized Federated Learning, 2020",
    learner="fedsub_client.methods.apfl:APFLLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=APFLHyperparameters,
    cost=cost,
    reports=("alpha",),
    choose="Some people gain more from others than other people do: each device learns its "
    "own share. Devices must be able to train two models.",
    privacy="The server sees each person's copy of the global model after training, and the share "
    "alpha, which says how little a person gains from the others; the own model stays at home. "
    "Other devices see only means of the copies.",
    decisions=(
        "The own model takes steps along the gradient at the mix, scaled by alpha. alpha "
        "takes steps by the chain rule. Both are as in the paper.",
        "alpha changes on the first batch of a round, with the run's learning rate, and stays "
        "between 0 and 1.",
        "Both models start from the first model that the device receives. If it is first "
        "drawn late, others have already trained that model.",
        "With Adam, whose steps do not depend on the gradient's length, alpha does not scale "
        "the steps.",
        "The tested model mixes the own model with the global model just received.",
    ),
    errors=(
        "PFLlib computes the gradient at the own model instead of the mix, adds 0.02 alpha to "
        "alpha's gradient, overwrites the own model with the mix and starts with alpha = 1. "
        "This is not followed.",
        "Ditto's comparison keeps alpha fixed (adaptive = false).",
    ),
    regression=True,
)
