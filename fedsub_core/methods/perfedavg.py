"""Per-FedAvg: a start that one step of training adapts."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import Cost, MethodCard, ReceivedHyperparameters
from fedsub_core.methods.card_parts import Training
from fedsub_core.options import option


@dataclass(frozen=True)
class PerFedAvgHyperparameters(ReceivedHyperparameters):
    """The outer rate is the run's ``lr``; alpha is ours (pFedMe's comparison: 0.005)."""

    first_order: bool = option(
        True, "leave out second derivatives; false: the paper's Hessian-free form"
    )
    alpha: float = option(0.01, "learning rate of the inner step and of adaptation", minimum=0)
    delta: float = option(0.001, "step of the Hessian-free difference", above=0)
    adapt_steps: int = option(
        1, "number of steps on training batches before the model is used", minimum=0
    )


def cost(hyper: PerFedAvgHyperparameters, epochs: int) -> Cost:
    """Return two gradients for two batches, or four for three."""
    return Cost(epochs if hyper.first_order else epochs * 4 / 3)


CARD = MethodCard(
    name="perfedavg",
    idea="a global model that is trained to adapt to a person in one step on their data",
    paper="Fallah et al., Personalized Federated Learning with Theoretical Guarantees: A "
    "Model-Agnostic Meta-Learning Approach, NeurIPS 2020",
    learner="fedsub_client.methods.perfedavg:PerFedAvgLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=PerFedAvgHyperparameters,
    cost=cost,
    training=Training(rates=("alpha",)),
    choose="People with little data keep joining: the model is trained to adapt in one step "
    "on their data. On WISDM its results were about those of fedavg (studies/README.md).",
    decisions=(
        "Second derivatives are left out by default; first-order = false is the paper's "
        "Hessian-free form, for a third more work.",
        "The inner rate alpha is 0.01; pFedMe's comparison has 0.005. The outer rate is the run's.",
        "Batches are used in pairs (Hessian-free: in threes). The last group is filled up "
        "with the first batches, and a single batch is paired with itself.",
        "Before it is tested or exported, the model takes adapt-steps plain gradient steps on "
        "training batches.",
    ),
    errors=(
        "The code of pFedMe's comparison adapts on test batches, so test labels leak into the "
        "tested model. This is not followed.",
        "PFLlib trains twice a round: not followed.",
    ),
    regression=True,
)
