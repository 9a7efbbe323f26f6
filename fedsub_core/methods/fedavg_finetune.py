"""FedAvg with fine-tuning: the global model is adapted at home before it is used."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.methods.parts import HeadHyperparameters, head_cost
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FineTuneHyperparameters(HeadHyperparameters):
    """One epoch of everything, as FedSub's comparison has it."""

    finetune_epochs: int = option(1, "epochs of fine-tuning; 0 is FedAvg", minimum=0)
    finetune: str = choice(
        "all", "head", "head-then-all", doc="layers that are fine-tuned; the last: each in turn"
    )


def cost(hyper: FineTuneHyperparameters, epochs: int) -> Cost:
    """Return FedAvg's cost, and that of fine-tuning in an evaluation."""
    own = hyper.finetune_epochs
    head = head_cost(own) if hyper.finetune.startswith("head") else 0
    return Cost(epochs, evaluation=head + (own if hyper.finetune.endswith("all") else 0))


CARD = MethodCard(
    name="fedavg-finetune",
    idea="FedAvg, whose global model each device fine-tunes before it is used",
    paper="Wang et al., Federated Evaluation of On-device Personalization, 2019",
    learner="fedsub_client.learners.fedavg_finetune:FineTuneLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=FineTuneHyperparameters,
    cost=cost,
)
